#include "muster/jobs/kubernetes_manifests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/jobs/internal/kubernetes_values.h"
#include "muster/jobs/internal/leaf_disease_job.h"
#include "muster/jobs/internal/published_fields.h"
#include "muster/jobs/internal/yaml_text.h"
#include "muster/jobs/job_config.h"

namespace muster::inline v0_1::jobs {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A job with all roles, of which some have several tasks.
JobSpec large_job() {
  JobSpec job = internal::leaf_disease_job();
  job.pools[1].count = 3;
  for (const auto& [role, count] : {std::pair{"ps", 2}, {"evaluator", 1}}) {
    job.pools.push_back(job.pools[1]);
    job.pools.back().role = role;
    job.pools.back().count = count;
  }
  return job;
}

// All that options can ask for.
KubernetesOptions all_options() {
  return {.name_space = "lab",
          .cpu = "4,chief=8",
          .memory = "16Gi",
          .node_selector = {{"disk", "ssd"}},
          .machine_label = "node.kubernetes.io/instance-type",
          .accelerator_label = "cloud.google.com/gke-accelerator",
          .tolerations = {"nvidia.com/gpu=present:NoSchedule", "spot"},
          .volume_claim = "models",
          .volume_path = "/models",
          .environment_secret = "bucket-keys",
          .service_account = "trainer",
          .image_pull_secret = "registry",
          .priority_class = "batch"};
}

json container_of(const KubernetesManifests& manifests, size_t document = 0) {
  return manifests.documents.at(document)["spec"]["template"]["spec"]["containers"][0];
}

// What the variables of a container are when Kubernetes starts it as this index.
Environment started(const json& container, int index) {
  Environment environment;
  for (const json& variable : container.value("env", json::array())) {
    std::string value = variable.value("value", std::to_string(index));
    const std::string reference = "$(JOB_COMPLETION_INDEX)";
    if (const size_t at = value.find(reference); at != std::string::npos) {
      EXPECT_TRUE(environment.has("JOB_COMPLETION_INDEX")) << "set behind its use";
      value.replace(at, reference.size(), environment.get_or("JOB_COMPLETION_INDEX", ""));
    }
    if (variable["name"] == "MUSTER_JOB_TOKEN") value = std::string(64, 'x');
    environment = environment.with(variable["name"], value);
  }
  return environment;
}

// The tutorial's configuration, as it is printed there, is the job that these tests have.
TEST(LeafDiseaseJob, IsReadFromItsConfiguration) {
  const char* source = std::getenv("MUSTER_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run this test through ctest";
  const JobConfig config =
      read_job_config_file(join_path(source, "muster/jobs/golden/config.yaml"));
  JobSpec job = config.job;
  // What stands on the command line.
  job.args = {"--epochs=5"};
  job.job_dir = "gs://bucket/runs/3";
  job.region = "us-central1";
  EXPECT_EQ(job, internal::leaf_disease_job());
}

// The tutorial's configuration, word for word as it is documented.
TEST(KubernetesManifests, OfTheLeafDiseaseJob) {
  const char* source = std::getenv("MUSTER_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run this test through ctest";
  const auto golden = [&](const std::string& file) {
    return local_file_system().read_file(join_path(source, "muster/jobs/golden/" + file)).value();
  };
  const JobSpec job = internal::leaf_disease_job();
  const KubernetesOptions options = {.cpu = "8", .memory = "30Gi"};
  EXPECT_EQ(to_yaml(kubernetes_manifests(job, "leaf-disease-1", options)),
            golden("leaf_disease.kubernetes.yaml"));
  // The document on it shows the Job that leads, and the Service.
  const auto manifests = kubernetes_manifests(job, "leaf-disease-1", options);
  const std::string shown =
      local_file_system().read_file(join_path(source, "docs/kubernetes.md")).value();
  for (const auto& document : {manifests.documents.front(), manifests.documents.back()}) {
    EXPECT_THAT(shown, HasSubstr("```yaml\n" + internal::to_yaml(document) + "```\n"));
  }
  KubernetesOptions tf = options;
  tf.kind = KubernetesKind::kTfJob;
  EXPECT_EQ(to_yaml(kubernetes_manifests(job, "leaf-disease-1", tf)),
            golden("leaf_disease.tfjob.yaml"));
}

TEST(KubernetesManifests, KeepToTheSchema) {
  for (const JobSpec& job : {internal::leaf_disease_job(), large_job()}) {
    for (const KubernetesOptions& plain : {KubernetesOptions{}, all_options()}) {
      for (const KubernetesKind kind :
           {KubernetesKind::kJob, KubernetesKind::kTfJob, KubernetesKind::kPyTorchJob}) {
        if (kind == KubernetesKind::kPyTorchJob && job.pools.size() > 2) continue;
        KubernetesOptions options = plain;
        options.kind = kind;
        for (const bool tls : {false, true}) {
          const auto manifests = kubernetes_manifests(job, "a-job", options, tls);
          for (const auto& document : manifests.documents) {
            EXPECT_THAT(internal::kubernetes_problems(json(document)), IsEmpty())
                << document.dump(2);
          }
          const auto secret = kubernetes_secret(
              manifests, options,
              {.token = "t", .certificates = launch::Certificates{"a", "b", "c"}});
          EXPECT_THAT(internal::kubernetes_problems(json(secret)), IsEmpty());
        }
      }
    }
  }
}

// The checker itself finds what it should.
TEST(KubernetesManifests, TheSchemaFindsMistakes) {
  const json good =
      json(kubernetes_manifests(internal::leaf_disease_job(), "a", {}).documents.front());
  const auto problems = [&](const std::string& pointer, const json& value) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    return internal::kubernetes_problems(bad);
  };
  EXPECT_THAT(problems("/spec/completion", 1), ElementsAre("Job.spec.completion is not a field"));
  EXPECT_THAT(problems("/spec/completions", "1"),
              ElementsAre("Job.spec.completions is \"1\", no whole"));
  EXPECT_THAT(problems("/metadata/name", "A_b"), SizeIs(1));
  EXPECT_THAT(problems("/spec/template/spec/restartPolicy", "OnFailure"),
              ElementsAre("podFailurePolicy needs restartPolicy: Never"));
  EXPECT_THAT(problems("/kind", "Jobs"), ElementsAre("no kind 'batch/v1 Jobs'"));
  json bad = good;
  bad["spec"].erase("template");
  EXPECT_THAT(internal::kubernetes_problems(bad), ElementsAre("Job.spec has no template"));
}

// Every pod finds its place with what it is started with, and all find the same cluster.
TEST(KubernetesManifests, EveryPodKnowsItsPlace) {
  for (const bool chief : {true, false}) {
    JobSpec job = large_job();
    job.chief_in_tf_config = chief;
    const auto manifests = kubernetes_manifests(job, "big", {});
    ASSERT_THAT(manifests.documents, SizeIs(5));  // a Job for each role, and the Service
    int rank = 0;
    for (const size_t document : {0, 1}) {
      const int count = manifests.documents[document]["spec"]["completions"];
      for (int i = 0; i < count; ++i) {
        const auto place = cluster::resolve_cluster(started(container_of(manifests, document), i));
        EXPECT_EQ(place.rank, rank++);
        EXPECT_EQ(place.num_workers, 4);
        EXPECT_EQ(place.coordinator_address, "big-chief-0.big:2222");
        EXPECT_THAT(place.ps_addresses, ElementsAre("big-ps-0.big:2222", "big-ps-1.big:2222"));
        EXPECT_EQ(place.job.id, "big");
      }
    }
    EXPECT_TRUE(cluster::resolve_cluster(started(container_of(manifests, 3), 0)).is_evaluator);
    const std::string text = started(container_of(manifests, 0), 0).get_or("TF_CONFIG", "");
    EXPECT_THAT(text, HasSubstr(chief ? "\"type\":\"chief\"" : "\"type\":\"master\""));
  }
}

// The names in TF_CONFIG are those that Kubernetes gives to the pods of an Indexed Job.
TEST(KubernetesManifests, AddressesAreThoseOfThePods) {
  const auto manifests = kubernetes_manifests(large_job(), "big", {});
  const json service = json(manifests.documents.back());
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  const std::string text = started(container_of(manifests), 0).get_or("TF_CONFIG", "");
  for (const auto& document : manifests.documents) {
    if (document["kind"] != "Job") continue;
    const json pod = document["spec"]["template"];
    EXPECT_EQ(pod["spec"]["subdomain"], service["metadata"]["name"]);
    for (const auto& [label, value] : service["spec"]["selector"].items()) {
      EXPECT_EQ(pod["metadata"]["labels"][label], value);
    }
    if (pod["metadata"]["labels"]["app.kubernetes.io/component"] == "evaluator") continue;
    for (int i = 0; i < document["spec"]["completions"]; ++i) {
      const std::string name = document["metadata"]["name"];
      EXPECT_THAT(text, HasSubstr("\"" + name + "-" + std::to_string(i) + ".big:2222\""));
    }
  }
}

TEST(KubernetesManifests, ASingleTaskRunsByItself) {
  JobSpec job = internal::leaf_disease_job();
  job.pools.pop_back();
  const auto manifests = kubernetes_manifests(job, "alone", {});
  ASSERT_THAT(manifests.documents, SizeIs(1));
  EXPECT_FALSE(container_of(manifests).contains("env"));
}

TEST(KubernetesManifests, OptionsArriveWhereTheyBelong) {
  const auto manifests = kubernetes_manifests(large_job(), "big", all_options(), /*tls=*/true);
  const json pod = json(manifests.documents[0]["spec"]["template"]["spec"]);
  const json container = pod["containers"][0];
  EXPECT_EQ(manifests.documents[0]["metadata"]["namespace"], "lab");
  EXPECT_EQ(container["resources"],
            json({{"requests", {{"cpu", "8"}, {"memory", "16Gi"}}},
                  {"limits", {{"memory", "16Gi"}, {"nvidia.com/gpu", 1}}}}));
  EXPECT_EQ(container_of(manifests, 1)["resources"]["requests"]["cpu"], "4");
  EXPECT_EQ(pod["nodeSelector"], json({{"disk", "ssd"},
                                       {"node.kubernetes.io/instance-type", "n1-standard-8"},
                                       {"cloud.google.com/gke-accelerator", "nvidia-tesla-t4"}}));
  EXPECT_EQ(pod["tolerations"], json::array({{{"key", "nvidia.com/gpu"},
                                              {"operator", "Equal"},
                                              {"value", "present"},
                                              {"effect", "NoSchedule"}},
                                             {{"key", "spot"}, {"operator", "Exists"}}}));
  EXPECT_EQ(container["envFrom"], json::array({{{"secretRef", {{"name", "bucket-keys"}}}}}));
  EXPECT_EQ(pod["serviceAccountName"], "trainer");
  EXPECT_EQ(pod["priorityClassName"], "batch");
  EXPECT_THAT(container["volumeMounts"],
              Contains(json({{"name", "model"}, {"mountPath", "/models"}})));
  const Environment environment = started(container, 0);
  EXPECT_EQ(environment.get("MUSTER_TLS_SERVER_NAME"), "big");
  EXPECT_EQ(environment.get("MUSTER_TLS_KEY"), "/run/secrets/muster-tls/key.pem");
  EXPECT_THAT(manifests.notes, ElementsAre(HasSubstr("must be ReadWriteMany")));
}

// Failures that will come again end the job; those that ask for a restart do not.
TEST(KubernetesManifests, ExitCodesDecideOnRestarts) {
  const json spec = json(kubernetes_manifests(large_job(), "big", {}).documents[1]["spec"]);
  EXPECT_EQ(spec["template"]["spec"]["restartPolicy"], "Never");
  EXPECT_EQ(spec["backoffLimit"], 9);  // 3 restarts of 3 workers
  const json rules = spec["podFailurePolicy"]["rules"];
  EXPECT_EQ(rules[0]["onPodConditions"][0]["type"], "DisruptionTarget");
  EXPECT_EQ(rules[1]["action"], "FailJob");
  EXPECT_EQ(rules[1]["onExitCodes"]["operator"], "NotIn");
  EXPECT_EQ(rules[1]["onExitCodes"]["values"], json({130, 137, 138, 143}));
}

TEST(KubernetesManifests, NamesAreLabelsOfDns) {
  EXPECT_EQ(kubernetes_name("leaf-disease-1"), "leaf-disease-1");
  EXPECT_EQ(kubernetes_name("ResNet_50.v2--"), "resnet-50-v2");
  EXPECT_EQ(kubernetes_name("7up"), "job-7up");
  EXPECT_EQ(kubernetes_name(""), "job");
  const std::string one = kubernetes_name(std::string(60, 'a') + "1");
  const std::string other = kubernetes_name(std::string(60, 'a') + "2");
  EXPECT_EQ(one.size(), 44u);
  EXPECT_NE(one, other);
  const auto manifests = kubernetes_manifests(large_job(), std::string(63, 'x'), {});
  for (const auto& document : manifests.documents) {
    EXPECT_THAT(internal::kubernetes_problems(json(document)), IsEmpty());
    EXPECT_LE(document["metadata"]["name"].get<std::string>().size() + 5, 63u);
  }
}

// Kubernetes replaces $(NAME) in the texts of a container; what a job says there stays.
TEST(KubernetesManifests, TextsStayAsTheyAre) {
  JobSpec job = internal::leaf_disease_job();
  job.args = {"--pattern=$(HOME)/*.jpg", "--price=5$", "--cash=$$", "--home=$HOME"};
  job.pools[0].environment = {{"PROMPT", "$(cluster)"}};
  const json container = container_of(kubernetes_manifests(job, "a", {}));
  EXPECT_THAT(container["args"].get<std::vector<std::string>>(),
              ElementsAre("--pattern=$$(HOME)/*.jpg", "--price=5$", "--cash=$$$$", "--home=$HOME",
                          "--job-dir", "gs://bucket/runs/3"));
  EXPECT_EQ(container["env"][0]["value"], "$$(cluster)");
}

// Whatever a configuration says, it does not become a document of its own.
TEST(KubernetesManifests, ValuesDoNotBecomeDocuments) {
  JobSpec job = internal::leaf_disease_job();
  job.job_dir = "runs\nkind: Secret";
  job.pools[0].machine_type = "a\n---";
  const std::string text = to_yaml(kubernetes_manifests(job, "a", {}));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\nkind: Secret")), Not(HasSubstr("\n---:"))));
}

TEST(KubernetesManifests, BadInputIsNamed) {
  const JobSpec good = internal::leaf_disease_job();
  const auto message = [](const JobSpec& job, const KubernetesOptions& options) {
    return message_of([&] { kubernetes_manifests(job, "a", options); });
  };
  JobSpec bad = good;
  bad.pools[1].image.clear();
  EXPECT_EQ(message(bad, {}), "no container image for the worker of the job");
  EXPECT_NO_THROW(kubernetes_manifests(bad, "a", {.image = "i"}));
  bad = good;
  bad.pools[0].environment = {{"TF_CONFIG", "{}"}};
  EXPECT_THAT(message(bad, {}), HasSubstr("sets TF_CONFIG"));
  bad = good;
  bad.labels = {{"team", "very bad"}};
  EXPECT_THAT(message(bad, {}), HasSubstr("'very bad'"));
  EXPECT_THAT(message(large_job(), {.kind = KubernetesKind::kPyTorchJob}), HasSubstr("role ps"));
  EXPECT_THAT(message({}, {}), HasSubstr("no tasks"));
  EXPECT_THAT(message(good, {.cpu = "many"}), HasSubstr("--cpu is 'many'"));
  EXPECT_THAT(message(good, {.memory = "16Gi,16Gi"}), HasSubstr("two values"));
  EXPECT_THAT(message(good, {.tolerations = {"a:Never"}}), HasSubstr("'a:Never'"));
  EXPECT_THAT(message(good, {.volume_claim = "c", .volume_path = "m"}), HasSubstr("'c:m'"));
  const Error role = error_of([&] { kubernetes_manifests(good, "a", {.cpu = "cheif=8"}); });
  EXPECT_THAT(role.hint(), HasSubstr("chief"));
}

TEST(KubernetesManifests, WhatAContainerLosesIsSaid) {
  JobSpec job = internal::leaf_disease_job();
  job.job_dir = "/models/leaf";
  EXPECT_THAT(kubernetes_manifests(job, "a", {}).notes,
              Contains(HasSubstr("/models/leaf is inside the containers")));
  // What is proposed is taken: mount paths are absolute.
  for (const char* dir : {"/models/leaf", "runs/leaf"}) {
    job.job_dir = dir;
    const std::string note = kubernetes_manifests(job, "a", {}).notes.front();
    const size_t path = note.find("--volume=CLAIM:") + std::string("--volume=CLAIM:").size();
    EXPECT_EQ(note[path], '/') << note;
  }
  job.job_dir = "/models/leaf";
  EXPECT_THAT(kubernetes_manifests(job, "a", {.volume_claim = "c", .volume_path = "/models"}).notes,
              Not(Contains(HasSubstr("is inside the containers"))));
}

TEST(YamlText, QuotesWhatReadersDisagreeOn) {
  nlohmann::ordered_json value = {{"plain", "gcr.io/a/b:v1"},
                                  {"yes", "yes"},
                                  {"number", "12"},
                                  {"empty", ""},
                                  {"flag", "--a=b"},
                                  {"json", R"({"a":1})"},
                                  {"list", {1, true, nullptr}}};
  value["nested"] = {{{"a", nlohmann::ordered_json::array()}, {"b", {{"c", "it's \"so\""}}}}};
  value["lines"] = "a\nb";
  EXPECT_EQ(internal::to_yaml(value),
            "plain: gcr.io/a/b:v1\n\"yes\": \"yes\"\nnumber: \"12\"\nempty: \"\"\n"
            "flag: \"--a=b\"\njson: '{\"a\":1}'\nlist:\n- 1\n- true\n- null\n"
            "nested:\n- a: []\n  b:\n    c: 'it''s \"so\"'\nlines: \"a\\nb\"\n");
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
