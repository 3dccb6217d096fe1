// Variables of which each replica keeps its own value until a checkpoint reads them.
#include "muster/distribute/replica_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::run_ranks;

VariableSpec on_read(const std::string& name, VariableAggregation aggregation,
                     DType dtype = kFloat32) {
  return {
      .name = name,
      .shape = {2},
      .dtype = dtype,
      .initializer = [](const Shape& shape, DType dtype,
                        RandomKey) { return torch::full(shape, 3, torch::TensorOptions(dtype)); },
      .trainable = false,
      .synchronization = VariableSynchronization::kOnRead,
      .aggregation = aggregation};
}

TEST(ReplicaValuesTest, AggregateAndSpreadFollowTheAggregation) {
  const Tensor values = torch::tensor({{1.0f, 2.0f}, {3.0f, 6.0f}});
  const struct {
    VariableAggregation aggregation;
    Tensor one, spread;
  } cases[] = {
      {VariableAggregation::kMean, torch::tensor({2.0f, 4.0f}),
       torch::tensor({{2.0f, 4.0f}, {2.0f, 4.0f}})},
      {VariableAggregation::kSum, torch::tensor({4.0f, 8.0f}),
       torch::tensor({{4.0f, 8.0f}, {0.0f, 0.0f}})},
      {VariableAggregation::kOnlyFirstReplica, torch::tensor({1.0f, 2.0f}),
       torch::tensor({{1.0f, 2.0f}, {1.0f, 2.0f}})},
      {VariableAggregation::kNone, torch::tensor({1.0f, 2.0f}),
       torch::tensor({{1.0f, 2.0f}, {1.0f, 2.0f}})},
  };
  for (const auto& law : cases) {
    const VariableSpec spec = on_read("v", law.aggregation);
    const Tensor one = aggregate(spec, values);
    EXPECT_TRUE(one.equal(law.one)) << one;
    EXPECT_TRUE(spread(spec, one, 2).equal(law.spread));
    EXPECT_TRUE(aggregate(spec, spread(spec, one, 2)).equal(one));
  }
}

TEST(ReplicaValuesTest, VariablesThatCannotBeReadAreRefused) {
  VariableTable table(0);
  const auto message = [&](const VariableSpec& spec) {
    const Error error = error_of([&] { table.get_or_create(spec); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  VariableSpec trains = on_read("v", VariableAggregation::kMean);
  trains.trainable = true;
  EXPECT_THAT(message(trains),
              HasSubstr("v float32[2] trains, and its synchronization is kOnRead"));
  EXPECT_THAT(message(on_read("n", VariableAggregation::kMean, kInt64)),
              HasSubstr("n int64[2] holds whole numbers"));
  table.get_or_create(on_read("n", VariableAggregation::kSum, kInt64));
  VariableSpec rows = on_read("rows", VariableAggregation::kConcat);
  rows.shape = {};
  EXPECT_THAT(message(rows), HasSubstr("rows float32[] has the aggregation kConcat"));
  rows.shape = {2};
  rows.synchronization = VariableSynchronization::kOnWrite;
  EXPECT_THAT(message(rows), HasSubstr("rows float32[2] has the aggregation kConcat"));
}

TEST(ReplicaValuesTest, TheBuildPassLeavesNoTrace) {
  VariableTable table(0);
  Variable& moving = table.get_or_create(on_read("moving", VariableAggregation::kMean));
  moving.value().add_(1);
  table.seal();
  EXPECT_TRUE(moving.value().equal(torch::full({2}, 3.0f)));
  moving.value().add_(1);
  table.seal();
  EXPECT_TRUE(moving.value().equal(torch::full({2}, 4.0f)));
}

TEST(ReplicaValuesTest, ValuesAssignedBeforeTheBuildPassIsOverStay) {
  VariableTable table(0);
  Variable& moving = table.get_or_create(on_read("moving", VariableAggregation::kMean));
  moving.value().fill_(7);
  table.note_assigned(moving);
  moving.value().add_(1);
  table.seal();
  EXPECT_TRUE(moving.value().equal(torch::full({2}, 7.0f)));
}

// --- over replicas -------------------------------------------------------------------------------

struct TwoSteps {
  std::map<std::string, Tensor> checkpoint{};            // to start from; empty: fresh
  std::map<std::string, Tensor> saved{};                 // the chief's
  std::vector<std::map<std::string, Tensor>> kept = {};  // by replica
};

// Every replica adds its rank + 1 in each of two steps; `rows` is the size of "rows".
TwoSteps two_steps(int replicas, std::map<std::string, Tensor> checkpoint = {}, int64_t rows = 2) {
  TwoSteps run{.checkpoint = std::move(checkpoint)};
  run.kept.resize(static_cast<size_t>(replicas));
  std::vector<VariableSpec> specs{on_read("mean", VariableAggregation::kMean),
                                  on_read("sum", VariableAggregation::kSum, kInt64),
                                  on_read("first", VariableAggregation::kOnlyFirstReplica, kInt32),
                                  on_read("rows", VariableAggregation::kConcat)};
  specs.back().shape = {rows};
  const auto body = [&](Replica& replica, int rank) {
    const auto sgd = optim::sgd();
    const Tensor& weight =
        replica.variables()
            .get_or_create({.name = "w",
                            .shape = {1},
                            .initializer = [](const Shape& shape, DType,
                                              RandomKey) { return torch::ones(shape); }})
            .value();
    for (const VariableSpec& spec : specs) replica.variables().get_or_create(spec);
    replica.finish_build(sgd.minimize(torch::zeros({})));
    if (replica.is_chief() && !run.checkpoint.empty()) {
      FoundCheckpoint found{.prefix = "model.ckpt-2", .checkpoint = {.tensors = run.checkpoint}};
      replica.state().restore(found);
      run.checkpoint = found.checkpoint.tensors;
    }
    replica.share_state();
    for (int step = 0; step < 2; ++step) {
      for (const VariableSpec& spec : specs)
        replica.variables().find(spec.name)->value().add_(rank + 1);
      const Tensor loss = weight.sum();
      const auto op = sgd.minimize(loss);
      replica.train_step({.train_op = &op, .loss = loss, .weight = 1, .rows = 1});
    }
    auto saved = replica.state().gather_for_checkpoint(/*later=*/false);
    for (auto& [name, tensor] : saved) tensor = tensor.detach().clone();
    for (const VariableSpec& spec : specs) {
      run.kept[static_cast<size_t>(rank)][spec.name] =
          replica.variables().find(spec.name)->value().clone();
    }
    if (replica.is_chief()) run.saved = std::move(saved);
    replica.finish();
  };
  const LocalCluster cluster(replicas);
  const StrategyPtr strategy = replicas == 1 ? one_device() : multi_worker_mirrored();
  run_ranks(replicas, [&](int rank) {
    StartOptions start{.join_timeout = 30};
    if (replicas > 1) {
      start.cluster =
          cluster::resolve_cluster(cluster.environment(rank), {.worker_zero_may_be_chief = true});
    }
    const auto replica = strategy->start(start);
    try {
      body(*replica, rank);
    } catch (const Error& error) {
      replica->group().fail(error);
      throw;
    }
  });
  return run;
}

void expect_all(const Tensor& tensor, double value, const std::string& what) {
  EXPECT_TRUE(tensor.to(kFloat64).eq(value).all().item<bool>()) << what << "\n" << tensor;
}

TEST(MultiWorkerReplicaValuesTest, ACheckpointHoldsOneValueAndEveryReplicas) {
  const TwoSteps run = two_steps(2);
  // 3 + 2 * 1 and 3 + 2 * 2; a sum starts on the chief.
  expect_all(run.saved.at("mean"), 6, "mean");
  expect_all(run.saved.at("sum"), 3 + 2 + 4, "sum");
  expect_all(run.saved.at("first"), 5, "first");
  expect_all(run.saved.at("mean/replicas")[0], 5, "mean of replica 0");
  expect_all(run.saved.at("mean/replicas")[1], 7, "mean of replica 1");
  expect_all(run.kept[1].at("first"), 7, "first of replica 1");
  expect_all(run.kept[1].at("sum"), 4, "sum of replica 1");
  EXPECT_EQ(run.saved.at("sum/replicas").scalar_type(), kInt64);
}

TEST(MultiWorkerReplicaValuesTest, AsManyReplicasContinueWithTheirOwn) {
  const TwoSteps run = two_steps(2, two_steps(2).saved);
  expect_all(run.kept[0].at("mean"), 3 + 4, "mean of replica 0");
  expect_all(run.kept[1].at("mean"), 3 + 8, "mean of replica 1");
  expect_all(run.kept[1].at("first"), 3 + 8, "first of replica 1");
  expect_all(run.saved.at("sum"), 3 + 4 + 8, "sum");
  EXPECT_EQ(run.checkpoint.count("mean/replicas"), 0u);
}

TEST(MultiWorkerReplicaValuesTest, AnotherNumberContinuesFromTheOneValue) {
  const auto two = two_steps(2).saved;
  const TwoSteps three = two_steps(3, two);
  for (int rank = 0; rank < 3; ++rank) {
    expect_all(three.kept[static_cast<size_t>(rank)].at("mean"), 6 + 2 * (rank + 1), "mean");
    expect_all(three.kept[static_cast<size_t>(rank)].at("first"), 5 + 2 * (rank + 1), "first");
  }
  expect_all(three.saved.at("sum"), 9 + 2 * (1 + 2 + 3), "sum");
  const TwoSteps one = two_steps(1, two);
  expect_all(one.saved.at("mean"), 6 + 2, "mean");
  expect_all(one.saved.at("sum"), 9 + 2, "sum");
  EXPECT_EQ(one.saved.count("mean/replicas"), 0u);
}

TEST(MultiWorkerReplicaValuesTest, RowsAreDividedOverAnyNumberOfReplicas) {
  const auto two = two_steps(2).saved;
  EXPECT_TRUE(two.at("rows").equal(torch::tensor({5.0f, 5.0f, 7.0f, 7.0f})));
  EXPECT_EQ(two.count("rows/replicas"), 0u);
  // Step by step: 2 x (1, 1, 2, 2), then 2 x (1, 1, 1, 1), then 2 x (1, 2, 3, 4).
  const auto one = two_steps(1, two, 4).saved;
  EXPECT_TRUE(one.at("rows").equal(torch::tensor({7.0f, 7.0f, 9.0f, 9.0f})));
  const auto four = two_steps(4, one, 1);
  EXPECT_TRUE(four.saved.at("rows").equal(torch::tensor({9.0f, 11.0f, 15.0f, 17.0f})));
  expect_all(four.kept[3].at("rows"), 17, "rows of replica 3");
  // Batches of another size are of other rows.
  expect_all(two_steps(1, two, 3).saved.at("rows"), 3 + 2, "rows of other batches");
  expect_all(two_steps(2, two, 3).kept[1].at("rows"), 3 + 4, "rows of other batches");
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
