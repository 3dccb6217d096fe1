#include "muster/cluster/resolved_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/cluster/cluster_source.h"

namespace muster::inline v0_1::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ResolvedCluster resolve(const std::string& text, ResolveOptions options = {}) {
  return resolve_cluster(Environment({{"TF_CONFIG", text}}), options);
}

std::string task(const std::string& cluster, const std::string& type, int index) {
  return R"({"cluster":{)" + cluster + R"(},"task":{"type":")" + type + R"(","index":)" +
         std::to_string(index) + "}}";
}

void expect_error(const std::string& text, ResolveOptions options, const std::string& says,
                  const std::string& hint) {
  try {
    resolve(text, options);
    ADD_FAILURE() << "no error for " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << text;
    EXPECT_THAT(error.message(), HasSubstr(says)) << text;
    EXPECT_THAT(error.hint(), HasSubstr(hint)) << text;
  }
}

const std::string kChief = R"("chief":["c:1"],"worker":["w0:1","w1:1"],"ps":["p:1"])";
const std::string kWorkers = R"("worker":["w0:1","w1:1"])";
const ResolveOptions kMultiWorker{.worker_zero_may_be_chief = true};

TEST(Resolve, AloneWithoutTfConfig) {
  for (const ResolvedCluster& got :
       {resolve_cluster(Environment()), resolve(""), resolve("{}"),
        resolve(R"({"task":{"type":"worker","index":0}})"), resolve("{}", kMultiWorker)}) {
    EXPECT_TRUE(got.is_chief);
    EXPECT_EQ(got.num_workers, 1);
    EXPECT_EQ(got.rank, 0);
    EXPECT_FALSE(got.distributed());
    EXPECT_EQ(got.coordinator_address, "");
    EXPECT_EQ(got.describe(), "one process, no cluster");
  }
}

TEST(Resolve, ChiefAndWorkers) {
  struct Case {
    std::string type{};
    int index, rank;
    bool chief{};
  };
  for (const Case& c : {Case{"chief", 0, 0, true}, Case{"worker", 0, 1, false},
                        Case{"worker", 1, 2, false}, Case{"ps", 0, -1, false}}) {
    for (const ResolveOptions& options : {ResolveOptions(), kMultiWorker}) {
      ResolvedCluster got = resolve(task(kChief, c.type, c.index), options);
      EXPECT_EQ(got.rank, c.rank) << c.type;
      EXPECT_EQ(got.is_chief, c.chief);
      EXPECT_EQ(got.num_workers, 3);
      EXPECT_EQ(got.num_ps, 1);
      EXPECT_EQ(got.coordinator_address, "c:1");
      EXPECT_THAT(got.addresses, ElementsAre("c:1", "w0:1", "w1:1"));
      EXPECT_THAT(got.ps_addresses, ElementsAre("p:1"));
      EXPECT_THAT(got.notes, IsEmpty());
    }
  }
  EXPECT_EQ(resolve(task(kChief, "worker", 1)).describe(),
            "worker:1, rank 2 of 3, 1 parameter server(s), coordinator (chief:0) at c:1");
}

TEST(Resolve, WorkersAloneNeedAMultiWorkerStrategy) {
  ResolvedCluster first = resolve(task(kWorkers, "worker", 0), kMultiWorker);
  EXPECT_TRUE(first.is_chief);
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(first.describe(), "worker:0 (chief), rank 0 of 2, coordinator (worker:0) at w0:1");
  ResolvedCluster second = resolve(task(kWorkers, "worker", 1), kMultiWorker);
  EXPECT_FALSE(second.is_chief);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.coordinator_address, "w0:1");
  EXPECT_THAT(second.addresses, ElementsAre("w0:1", "w1:1"));
  for (int index : {0, 1}) {
    expect_error(task(kWorkers, "worker", index), {}, "one \"chief\"",
                 ".train_distribute = distribute::multi_worker_mirrored()");
    expect_error(task(kWorkers, "worker", index), {}, "one \"chief\"",
                 R"(strategy_by_name("multi_worker"))");
    expect_error(task(kWorkers, "worker", index), {}, "one \"chief\"", "--strategy=multi_worker");
    expect_error(task(kWorkers, "worker", index), {}, "cluster is {\"worker\":[\"w0:1\",\"w1:1\"]}",
                 R"("chief":["w0:1"])");
  }
  expect_error(task(kWorkers, "worker", 2), kMultiWorker, "task.index is 2", "TF_CONFIG=");
  expect_error(task(kWorkers, "ps", 0), kMultiWorker, "task.type is \"ps\"", "TF_CONFIG=");
  expect_error(task(R"("ps":["p:1"])", "ps", 0), kMultiWorker, "one \"chief\"", "TF_CONFIG=");
  // Where the workers are not peers, none of them leads.
  expect_error(task(kWorkers + R"(,"ps":["p:1"])", "worker", 0), {}, "one \"chief\"",
               "make one task the chief, for example");
}

TEST(Resolve, MasterIsAnotherNameOfTheChief) {
  const std::string cluster = R"("master":["m:1"],"worker":["w0:1"])";
  ResolvedCluster got = resolve(task(cluster, "master", 0));
  EXPECT_EQ(got.task, (Task{"chief", 0}));
  EXPECT_TRUE(got.is_chief);
  EXPECT_THAT(got.notes, ElementsAre(HasSubstr("master")));
  EXPECT_EQ(resolve(task(cluster, "worker", 0)).rank, 1);
  EXPECT_TRUE(resolve(task(cluster, "evaluator", 0)).is_evaluator);
  expect_error(task(R"("master":["m:1"],"chief":["c:1"])", "chief", 0), {}, "cluster.master",
               "TF_CONFIG=");
}

TEST(Resolve, TheEvaluatorMayBeInsideOrOutside) {
  for (std::string extra : {"", R"(,"evaluator":["e:1"])"}) {
    for (const std::string& cluster : {kChief + extra, kWorkers + extra}) {
      ResolvedCluster got = resolve(task(cluster, "evaluator", 0), kMultiWorker);
      EXPECT_TRUE(got.is_evaluator);
      EXPECT_FALSE(got.is_chief);
      EXPECT_EQ(got.rank, -1);
      EXPECT_EQ(got.num_workers, 0);
      EXPECT_FALSE(got.coordinator_address.empty());
      EXPECT_TRUE(got.notes.empty());
      const ResolvedCluster second = resolve(task(cluster, "evaluator", 1), kMultiWorker);
      EXPECT_TRUE(second.is_evaluator);
      EXPECT_THAT(second.notes, ElementsAre(HasSubstr("evaluator:1 waits")));
    }
    EXPECT_EQ(resolve(task(kChief + extra, "worker", 1)).num_workers, 3) << "no task waits for it";
    EXPECT_EQ(resolve(task(kChief + extra, "worker", 1)).notes.size(), extra.empty() ? 0u : 1u);
  }
}

TEST(Resolve, SparseWorkersAreRankedInOrder) {
  ResolvedCluster got = resolve(
      R"({"sparseCluster":{"chief":["c:1"],"worker":{"5":"w5:1","2":"w2:1"}},"task":{"type":"worker","index":5}})");
  EXPECT_EQ(got.rank, 2);
  EXPECT_EQ(got.task.name(), "worker:5");
  EXPECT_THAT(got.addresses, ElementsAre("c:1", "w2:1", "w5:1"));
}

TEST(Resolve, Refusals) {
  expect_error(task(R"("chief":["a:1"],"worker":["a:1"])", "chief", 0), {}, "the same address",
               "TF_CONFIG=");
  expect_error(task(R"("chief":["a"],"worker":["b:1"])", "chief", 0), {},
               "cluster.chief[0] is \"a\"", "host:port");
  expect_error(task(R"("chief":["a:0"],"worker":["b:1"])", "chief", 0), {}, "port 0",
               R"("chief":["a:2222"])");
  expect_error(task(R"("chief":["a:1"],"gpu":["b:1"])", "gpu", 0), {}, "cluster.gpu",
               R"("chief":["a:1"])");
  expect_error(
      task(R"("workers":["a:1","b:1"])", "worker", 0), kMultiWorker, "cluster.workers",
      R"(did you mean worker, for example TF_CONFIG='{"cluster":{"worker":["a:1","b:1"]})");
  expect_error("{", {}, "TF_CONFIG", "TF_CONFIG=");
}

TEST(Resolve, ModelDirTravels) {
  EXPECT_EQ(resolve(R"({"model_dir":"/m"})").model_dir, "/m");
  EXPECT_EQ(resolve("{}", {.model_dir = "/p"}).model_dir, "/p");
}

TEST(Resolve, SourcesSpeakOnlyOfWhatIsTheirs) {
  const auto no_files = [](const std::string&) { return std::optional<std::string>(); };
  for (const ClusterSource& source : cluster_sources())
    EXPECT_EQ(source.seen({Environment(), no_files}), "") << source.name;
  const ClusterSource& source = cluster_sources()[0];
  EXPECT_EQ(source.name, "TF_CONFIG");
  EXPECT_EQ(source.seen({Environment({{"WORLD_SIZE", "2"}, {"RANK", "1"}}), no_files}), "");
  EXPECT_EQ(source.seen({Environment({{"TF_CONFIG", ""}}), no_files}), "");
  const Environment given(
      {{"TF_CONFIG", task(R"("chief":["a:1"],"worker":["b:1"])", "worker", 0)}});
  EXPECT_NE(source.seen({given, no_files}), "");
  EXPECT_EQ(source.resolve({given, no_files}, {}).rank, 1);
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
