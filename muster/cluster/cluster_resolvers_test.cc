#include "muster/cluster/cluster_resolvers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/cluster/slurm_nodelist.h"

namespace muster::inline v0_1::cluster {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Pods = std::vector<std::vector<std::string>>;  // name, phase, host_ip

std::string pod_list(const Pods& pods) {
  json items = json::array();
  for (const auto& pod : pods) {
    items.push_back({{"metadata", {{"name", pod[0]}}},
                     {"status", {{"phase", pod[1]}, {"hostIP", pod[2]}, {"podIP", "10.0.0.1"}}}});
  }
  return json{{"kind", "PodList"}, {"items", items}}.dump();
}

ListPods always(const Pods& pods) {
  return [pods](const std::string&) { return Result<std::string>(pod_list(pods)); };
}

// {"worker": ["a:1", "b:2"]}, or {"worker": {"3": "c:4"}}.
ClusterSpec cluster_of(const json& jobs) {
  ClusterSpec spec;
  for (const auto& [job, tasks] : jobs.items()) {
    spec.add_job(job);
    int next = 0;
    for (const auto& [index, address] : tasks.items()) {
      spec.add({job, tasks.is_array() ? next++ : std::stoi(index)}, address.get<std::string>());
    }
  }
  return spec;
}

json resolver_cases() {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (data == nullptr) return {};
  std::ifstream file(std::filesystem::path(data) / ".." / "golden" / "tfconfig_cases.json");
  return file ? json::parse(file) : json();
}

void check_kubernetes(const json& known) {
  KubernetesClusterOptions options{.port = known["tf_server_port"]};
  if (known["job_to_label_mapping"].is_object()) {
    options.jobs = known["job_to_label_mapping"].get<decltype(options.jobs)>();
  }
  const ClusterSpec got = kubernetes_cluster(options, [&](const std::string& selector) {
    Pods pods;
    for (const json& pod : known["pods_by_selector"][selector])
      pods.push_back({pod["name"], pod["phase"], pod["host_ip"]});
    return Result<std::string>(pod_list(pods));
  });
  EXPECT_EQ(got, cluster_of(known["expect"]["cluster_spec"]));
}

void check_union(const json& known) {
  std::vector<ClusterSpec> specs;
  for (const json& spec : known["specs"]) specs.push_back(cluster_of(spec));
  if (known["expect"].contains("error")) {
    EXPECT_EQ(error_of([&] { union_of(specs); }).kind(), ErrorKind::kInvalidArgument);
  } else {
    EXPECT_EQ(union_of(specs), cluster_of(known["expect"]["cluster_spec"]));
  }
}

void check_slurm(const json& known) {
  SlurmClusterOptions options;
  if (known["ctor"].contains("jobs"))
    options.jobs = known["ctor"]["jobs"].get<decltype(options.jobs)>();
  const Environment environment(known["env"].get<std::map<std::string, std::string>>());
  const ClusterAndTask got = slurm_cluster(environment, options);
  EXPECT_EQ(got.cluster, cluster_of(known["expect"]["cluster_spec"]));
  EXPECT_EQ(got.task.type, known["expect"]["task_type"].get<std::string>());
  EXPECT_EQ(got.task.index, known["expect"]["task_id"].get<int>());
}

TEST(ClusterResolvers, KnownCases) {
  const json cases = resolver_cases();
  // Neither the data nor the known cases of tf.distribute come with the project.
  if (cases.empty()) GTEST_SKIP() << "the known cases are not beside MUSTER_TEST_DATA";
  for (const json& known : cases["kubernetes"]) {
    SCOPED_TRACE(known["id"].get<std::string>());
    check_kubernetes(known);
  }
  for (const json& known : cases["union"]) {
    SCOPED_TRACE(known["id"].get<std::string>());
    check_union(known);
  }
  for (const json& known : cases["slurm"]["resolver"]) {
    // Nodes stay in Slurm's order here, and the strategy assigns the GPUs.
    const std::string id = known["id"];
    if (id == "nodes_sorted_not_step_order" || id == "gpus_per_task_zero") continue;
    SCOPED_TRACE(id);
    check_slurm(known);
  }
  for (const json& known : cases["slurm"]["expand_tasks_per_node"]) {
    const std::string input = known["input"];
    SCOPED_TRACE(input);
    if (known["expect"].is_array()) {
      EXPECT_EQ(expand_tasks_per_node(input), known["expect"].get<std::vector<int>>());
    } else {
      EXPECT_EQ(error_of([&] { expand_tasks_per_node(input); }).kind(),
                ErrorKind::kInvalidArgument);
    }
  }
}

TEST(KubernetesCluster, NumbersPodsByTheirNames) {
  const KubernetesClusterOptions options{.jobs = {{"chief", {"a"}}, {"worker", {"b"}}},
                                         .port = 2222};
  const auto pods = [](const std::string& selector) {
    return Result<std::string>(pod_list(
        selector == "a" ? Pods{{"x-0", "Running", "1.0.0.9"}}
                        : Pods{{"y-2", "Running", "1.0.0.2"}, {"y-10", "Running", "fe80::1"}}));
  };
  const ClusterSpec cluster = kubernetes_cluster(options, pods);
  EXPECT_EQ(cluster, ClusterSpec({{"chief", {"1.0.0.9:2222"}},
                                  {"worker", {"[fe80::1]:2222", "1.0.0.2:2222"}}}));
  EXPECT_EQ(
      kubernetes_cluster({.port = 7, .pod_addresses = true}, always({{"p", "Running", "1.0.0.1"}})),
      ClusterSpec({{"worker", {"10.0.0.1:7"}}}));
}

TEST(KubernetesCluster, SaysWhichPodIsNotReady) {
  const auto error = [](const ListPods& pods, int port = 8470) {
    return error_of([&] { kubernetes_cluster({.port = port}, pods); });
  };
  const Error pending = error(always({{"p-0", "Running", "1.0.0.1"}, {"p-1", "Pending", ""}}));
  EXPECT_EQ(pending.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(pending.what(), AllOf(HasSubstr("\"p-1\""), HasSubstr("\"Pending\"")));
  EXPECT_EQ(error(always({{"p", "Succeeded", "1.0.0.1"}})).kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error(always({})).what(), HasSubstr("\"job-name=tensorflow\""));
  EXPECT_EQ(error(always({{"p", "Running", "1.0.0.1"}}), 0).kind(), ErrorKind::kInvalidArgument);
  for (const char* text :
       {"", "[]", "{}", R"({"items":3})", R"({"items":[3]})", R"({"items":[{}]})"}) {
    EXPECT_EQ(error([text](const std::string&) { return Result<std::string>(text); }).kind(),
              text[0] == 0
                  ? error([](const std::string&) { return Result<std::string>(""); }).kind()
                  : ErrorKind::kCorrupt)
        << text;
  }
  EXPECT_EQ(
      error([](const std::string&) -> Result<std::string> { return not_found("gone"); }).kind(),
      ErrorKind::kNotFound);
}

Environment step(const char* procid, const char* tasks, const char* nodes, const char* counts) {
  return {{"SLURM_PROCID", procid},
          {"SLURM_STEP_NUM_TASKS", tasks},
          {"SLURM_STEP_NODELIST", nodes},
          {"SLURM_STEP_TASKS_PER_NODE", counts}};
}

TEST(SlurmCluster, GivesTasksJobsInTheOrderOfTheirNames) {
  const SlurmClusterOptions options{.jobs = {{"worker", 2}, {"ps", 2}, {"chief", 1}},
                                    .port_base = 3000};
  const ClusterSpec expected(
      {{"chief", {"z1:3000"}}, {"ps", {"z1:3001", "a1:3000"}}, {"worker", {"a1:3001", "a1:3002"}}});
  const std::vector<Task> tasks{{"chief", 0}, {"ps", 0}, {"ps", 1}, {"worker", 0}, {"worker", 1}};
  for (int rank = 0; rank < 5; ++rank) {
    const Environment environment =
        step(std::to_string(rank).c_str(), "5", "z1,m[1-2],a1", "2,0(x2),3");
    const ClusterAndTask got = slurm_cluster(environment, options);
    EXPECT_EQ(got.cluster, expected);
    EXPECT_EQ(got.task, tasks[static_cast<size_t>(rank)]);
    // Training prefers it to Slurm's variables.
    const ResolvedCluster resolved = resolve_cluster(
        in_cluster(environment.with("MUSTER_INSECURE", "1"), got.cluster, got.task));
    EXPECT_EQ(resolved.task, got.task);
    EXPECT_EQ(resolved.num_ps, 2);
    EXPECT_EQ(resolved.num_workers, 3);
  }
}

TEST(SlurmCluster, RefusesWhatDoesNotFit) {
  const auto says = [](const Environment& environment, const SlurmClusterOptions& options = {}) {
    return std::string(error_of([&] { slurm_cluster(environment, options); }).what());
  };
  EXPECT_THAT(says({}), HasSubstr("SLURM_STEP_NUM_TASKS is not set"));
  EXPECT_THAT(says(step("0", "3", "a,b", "1(x2)")), HasSubstr("contradicts itself"));
  EXPECT_THAT(says(step("2", "2", "a,b", "1(x2)")), HasSubstr("SLURM_PROCID is 2"));
  EXPECT_THAT(says(step("0", "2", "a,b", "1(x2)"), {.jobs = {{"ps", 1}, {"worker", 2}}}),
              AllOf(HasSubstr("3 tasks"), HasSubstr("has 2")));
  EXPECT_THAT(says(step("0", "2", "a", "2"), {.port_base = 65535}), HasSubstr("65536"));
}

TEST(UnionOf, JoinsOtherJobsAndKeepsIndicesWithGaps) {
  const ClusterSpec servers({{"ps", {"s:1"}}}), first({{"worker", {"a:1", "b:1"}}}),
      second({{"worker", {"c:1"}}});
  EXPECT_EQ(union_of({servers, first, second}),
            ClusterSpec({{"ps", {"s:1"}}, {"worker", {"a:1", "b:1", "c:1"}}}));
  EXPECT_EQ(union_of({}), ClusterSpec());
  EXPECT_EQ(union_of({cluster_of({{"worker", {{"3", "d:1"}}}}), first}),
            cluster_of({{"worker", {{"0", "a:1"}, {"1", "b:1"}, {"3", "d:1"}}}}));
  EXPECT_EQ(error_of([&] {
              union_of({cluster_of({{"worker", {{"1", "d:1"}}}}), first});
            }).kind(),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
