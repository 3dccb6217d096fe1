#include "muster/jobs/internal/vertex_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/jobs/internal/leaf_disease_job.h"
#include "muster/jobs/internal/published_fields.h"
#include "muster/jobs/internal/vertex_machines.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The tutorial's configuration, word for word as it is documented.
TEST(VertexJob, OfTheLeafDiseaseJob) {
  const char* source = std::getenv("MUSTER_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "run this test through ctest";
  const VertexJob job = vertex_job(leaf_disease_job(), "leaf-disease-1", {});
  EXPECT_EQ(job.resource.dump(2) + "\n",
            local_file_system()
                .read_file(join_path(source, "muster/jobs/golden/leaf_disease.vertex.json"))
                .value());
  EXPECT_THAT(local_file_system().read_file(join_path(source, "docs/vertex.md")).value(),
              HasSubstr("```json\n" + job.resource.dump(2) + "\n```\n"));
  EXPECT_THAT(job.notes, IsEmpty());
  EXPECT_THAT(vertex_problems(json(job.resource)), IsEmpty());
}

TEST(VertexJob, PoolsHaveTheirNumbers) {
  JobSpec job = leaf_disease_job();
  job.pools[1].role = "evaluator";
  const json chief_and_evaluator = json(vertex_job(job, "a", {}).resource);
  const json& pools = chief_and_evaluator["jobSpec"]["workerPoolSpecs"];
  ASSERT_THAT(pools, SizeIs(4));
  EXPECT_EQ(pools[1], json::object());
  EXPECT_EQ(pools[2], json::object());
  EXPECT_EQ(pools[3]["replicaCount"], 1);
  EXPECT_THAT(vertex_problems(chief_and_evaluator), IsEmpty());

  // Without a chief the first worker leads.
  job = leaf_disease_job();
  job.pools = {job.pools[1]};
  job.pools[0].count = 3;
  const json workers = json(vertex_job(job, "a", {}).resource)["jobSpec"]["workerPoolSpecs"];
  ASSERT_THAT(workers, SizeIs(2));
  EXPECT_EQ(workers[0]["replicaCount"], 1);
  EXPECT_EQ(workers[1]["replicaCount"], 2);

  job.pools[0].role = "ps";
  EXPECT_THAT(message_of([&] { vertex_job(job, "a", {}); }), HasSubstr("neither a chief"));
}

TEST(VertexJob, AllThatAJobSaysArrives) {
  JobSpec job = leaf_disease_job();
  job.pools[0].command = {"/opt/train"};
  job.pools[0].args = {"--role=chief"};
  job.pools[0].environment = {{"MODE", "fast"}};
  job.pools[1].command = {"sh", "-c"};
  job.pools[1].disk_type = "pd-ssd";
  job.pools[1].disk_gigabytes = 200;
  job.service_account = "trainer@project.iam.gserviceaccount.com";
  job.network = "projects/1/global/networks/net";
  job.tensorboard = "projects/1/locations/us-central1/tensorboards/2";
  job.labels = {{"team", "leaf"}};
  job.scheduling = {.max_running_seconds = 3600, .restarts = 0};
  const json made = json(vertex_job(job, "a", {}, "secret").resource);
  EXPECT_THAT(vertex_problems(made), IsEmpty()) << made.dump(2);
  const json& spec = made["jobSpec"];
  const json& chief = spec["workerPoolSpecs"][0];
  EXPECT_EQ(chief["containerSpec"],
            json({{"imageUri", "gcr.io/PROJECT/leaf:latest"},
                  {"command", {"/opt/train"}},
                  {"args", {"--role=chief", "--job-dir", "gs://bucket/runs/3"}},
                  {"env",
                   {{{"name", "MODE"}, {"value", "fast"}},
                    {{"name", "MUSTER_JOB_ID"}, {"value", "a"}},
                    {{"name", "MUSTER_JOB_TOKEN"}, {"value", "secret"}}}}}));
  const json& worker = spec["workerPoolSpecs"][1];
  EXPECT_EQ(worker["containerSpec"]["command"], json({"sh", "-c"}));
  // The program of the command line takes the place of all of them.
  job.program = {"/opt/other"};
  const json other = json(vertex_job(job, "a", {}).resource);
  for (const json& pool : other["jobSpec"]["workerPoolSpecs"]) {
    EXPECT_EQ(pool["containerSpec"]["command"], json({"/opt/other"}));
  }
  EXPECT_EQ(worker["diskSpec"], json({{"bootDiskType", "pd-ssd"}, {"bootDiskSizeGb", 200}}));
  EXPECT_EQ(
      spec["scheduling"],
      json({{"timeout", "3600s"}, {"restartJobOnWorkerRestart", true}, {"disableRetries", true}}));
  EXPECT_EQ(spec["serviceAccount"], job.service_account);
  EXPECT_EQ(spec["network"], job.network);
  EXPECT_EQ(spec["tensorboard"], job.tensorboard);
  EXPECT_EQ(spec["baseOutputDirectory"]["outputUriPrefix"], "gs://bucket/runs/3");
  EXPECT_EQ(made["labels"], json({{"team", "leaf"}}));
}

TEST(VertexJob, ASearchIsATuningJob) {
  JobSpec job = leaf_disease_job();
  HyperParameterSearch search;
  search.maximize = false;
  search.max_trials = 8;
  search.max_parallel_trials = 2;
  search.max_failed_trials = 3;
  search.metric_tag = "loss";
  search.algorithm = HyperParameterSearch::Algorithm::kRandom;
  search.early_stopping = true;
  search.parameters = {
      {.name = "rate", .min_value = 1e-4, .max_value = 0.1, .scale = HyperParameter::Scale::kLog},
      {.name = "units",
       .type = HyperParameter::Type::kInteger,
       .min_value = 8,
       .max_value = 64,
       .scale = HyperParameter::Scale::kLinear},
      {.name = "optimizer",
       .type = HyperParameter::Type::kCategorical,
       .categories = {"adam", "sgd"}},
      {.name = "batch",
       .type = HyperParameter::Type::kDiscrete,
       .values = {16, 32},
       .scale = HyperParameter::Scale::kReverseLog}};
  job.search = search;
  const VertexJob made = vertex_job(job, "a", {});
  EXPECT_TRUE(made.tuning);
  const json resource = json(made.resource);
  EXPECT_THAT(vertex_problems(resource), IsEmpty()) << resource.dump(2);
  EXPECT_EQ(resource["studySpec"], json::parse(R"({
    "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
    "parameters": [
      {"parameterId": "rate", "doubleValueSpec": {"minValue": 0.0001, "maxValue": 0.1},
       "scaleType": "UNIT_LOG_SCALE"},
      {"parameterId": "units", "integerValueSpec": {"minValue": "8", "maxValue": "64"},
       "scaleType": "UNIT_LINEAR_SCALE"},
      {"parameterId": "optimizer", "categoricalValueSpec": {"values": ["adam", "sgd"]}},
      {"parameterId": "batch", "discreteValueSpec": {"values": [16.0, 32.0]},
       "scaleType": "UNIT_REVERSE_LOG_SCALE"}],
    "algorithm": "RANDOM_SEARCH",
    "medianAutomatedStoppingSpec": {"useElapsedDuration": false}})"));
  EXPECT_EQ(resource["maxTrialCount"], 8);
  EXPECT_EQ(resource["parallelTrialCount"], 2);
  EXPECT_EQ(resource["maxFailedTrialCount"], 3);
  EXPECT_TRUE(resource.contains("trialJobSpec"));
}

TEST(VertexJob, OldMachinesAreMappedOrRefused) {
  const auto machine = [](const std::string& type, const Accelerator& accelerator = {}) {
    return vertex_machine(
        {.role = "worker", .count = 1, .machine_type = type, .accelerator = accelerator},
        "n1-standard-4");
  };
  EXPECT_EQ(machine("").type, "n1-standard-4");
  EXPECT_EQ(machine("g2-standard-8", {"nvidia-l4", 1}).accelerator.type, "NVIDIA_L4");
  EXPECT_EQ(machine("n1-standard-8", {"T4", 1}).accelerator.type, "NVIDIA_TESLA_T4");
  const auto old = machine("complex_model_m_p100");
  EXPECT_EQ(old.type, "n1-standard-16");
  EXPECT_EQ(old.accelerator, (Accelerator{"NVIDIA_TESLA_P100", 4}));
  EXPECT_EQ(old.note,
            "the machine type complex_model_m_p100 of the worker is AI Platform's: Vertex AI gets "
            "n1-standard-16 with 4 NVIDIA_TESLA_P100");
  const Error gone = error_of([&] { machine("standard_gpu"); });
  EXPECT_EQ(gone.message(),
            "the machine type standard_gpu of the worker has 1 NVIDIA_TESLA_K80, which Vertex AI "
            "does not have any more");
  EXPECT_THAT(gone.hint(),
              HasSubstr("n1-standard-8 with acceleratorConfig: {type: NVIDIA_TESLA_T4"));
  EXPECT_THAT(message_of([&] {
                machine("n1-standard-8", {"NVIDIA_TESLA_K80", 1});
              }),
              HasSubstr("NVIDIA_TESLA_K80"));
  EXPECT_THAT(message_of([&] { machine("complex_model_xl"); }), HasSubstr("complex_model_xl"));
  const Error near = error_of([&] { machine("n1-standard-8", {"NVIDIA_TESLA_V1000", 1}); });
  EXPECT_THAT(near.hint(), HasSubstr("NVIDIA_TESLA_V100"));
  const Error shorter = error_of([&] { machine("n1-standard-8", {"T44", 1}); });
  EXPECT_THAT(shorter.hint(), HasSubstr("did you mean NVIDIA_TESLA_T4?"));
}

TEST(VertexJob, BadInputAndWhatIsLostAreNamed) {
  const JobSpec good = leaf_disease_job();
  JobSpec bad = good;
  bad.pools[0].image.clear();
  EXPECT_THAT(message_of([&] { vertex_job(bad, "a", {}); }), HasSubstr("no container image"));
  EXPECT_NO_THROW(vertex_job(bad, "a", {.image = "i"}));
  bad = good;
  bad.labels = {{"Team", "x"}};
  EXPECT_THAT(message_of([&] { vertex_job(bad, "a", {}); }), HasSubstr("'Team'"));
  bad = good;
  bad.pools[1].environment = {{"TF_CONFIG", "{}"}};
  EXPECT_THAT(message_of([&] { vertex_job(bad, "a", {}); }), HasSubstr("TF_CONFIG"));
  JobSpec lossy = good;
  lossy.job_dir = "s3://bucket/job";
  lossy.chief_in_tf_config = false;
  lossy.scheduling.max_wait_seconds = 60;
  const VertexJob made = vertex_job(lossy, "a", {});
  EXPECT_THAT(made.notes, ElementsAre(HasSubstr("s3://bucket/job is not gs:// bucket"),
                                      HasSubstr("useChiefInTfConfig"), HasSubstr("time to wait")));
  EXPECT_FALSE(made.resource["jobSpec"].contains("baseOutputDirectory"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs::internal
