#include "muster/cluster/cluster_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const ClusterSpec kMixed{{"worker", {"w0:1", "w1:1"}},
                         {"chief", {"c:1"}},
                         {"ps", {"p0:1", "p1:1"}},
                         {"evaluator", {"e:1"}}};

void expect_error(const std::function<void()>& act, const std::string& says) {
  try {
    act();
    ADD_FAILURE() << "no error: " << says;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(says));
  }
}

TEST(ClusterSpec, JobsAreSortedAndAddressesFound) {
  EXPECT_THAT(kMixed.jobs(), ElementsAre("chief", "evaluator", "ps", "worker"));
  EXPECT_EQ(kMixed.address({"ps", 1}), "p1:1");
  EXPECT_EQ(kMixed.num_tasks("worker"), 2);
  EXPECT_EQ(kMixed.num_tasks("none"), 0);
  EXPECT_EQ(kMixed.num_tasks(), 6);
  EXPECT_EQ((Task{"worker", 1}).name(), "worker:1");
}

TEST(ClusterSpec, UnknownJobsAndIndicesAreNamed) {
  expect_error([] { kMixed.address({"tpu", 0}); }, "no job \"tpu\"");
  expect_error([] { kMixed.address({"worker", 2}); }, "job \"worker\" has no task with index 2");
  ClusterSpec spec;
  spec.add({"worker", 3}, "a:1");
  expect_error([&] { spec.add({"worker", 3}, "b:1"); }, "two tasks with index 3");
  expect_error([&] { spec.add({"worker", -1}, "b:1"); }, "-1");
}

TEST(ClusterSpec, SparseIndicesKeepTheirNumbersButCountInOrder) {
  ClusterSpec spec;
  spec.add({"worker", 7}, "b:1");
  spec.add({"worker", 2}, "a:1");
  EXPECT_EQ(spec.address({"worker", 7}), "b:1");
  EXPECT_EQ(global_id(spec, {"worker", 2}), 0);
  EXPECT_EQ(global_id(spec, {"worker", 7}), 1);
}

TEST(ClusterSpec, GlobalIdsAreAPermutationWithTheChiefFirstAndServersLast) {
  std::vector<int> ids;
  for (const auto& [job, tasks] : kMixed.as_map()) {
    for (const auto& [index, address] : tasks) ids.push_back(*global_id(kMixed, {job, index}));
  }
  // chief, evaluator, ps 0, ps 1, worker 0, worker 1
  EXPECT_THAT(ids, ElementsAre(0, 1, 4, 5, 2, 3));
  EXPECT_EQ(global_id(kMixed, {"worker", 9}), std::nullopt);
  EXPECT_EQ(global_id({{"master", {"m:1"}}, {"a", {"a:1"}}}, {"master", 0}), 0);
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
