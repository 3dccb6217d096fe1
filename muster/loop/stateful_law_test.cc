// Invariant of recurrent layers that keep their state: n replicas continue where one continues,
// also when a run is resumed on another number of them.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/sequential.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr int64_t kStreams = 6, kChunks = 4, kChunkSteps = 3;

// Six streams of 12 steps, cut into chunks of 3; a batch has one chunk of each.
Dataset streams() {
  const Tensor x = torch::arange(kChunks * kStreams * kChunkSteps * 2)
                       .to(kFloat32)
                       .sin()
                       .view({kChunks * kStreams, kChunkSteps, 2});
  return Dataset::from_tensor_slices(Element::tuple({x, x.sum(1).sum(1, /*keepdim=*/true)}))
      .batch(kStreams);
}

Layer reader() {
  return Sequential({LSTM(4, {.return_sequences = true, .stateful = true}),
                     RNN(GRUCell(3), {.stateful = true}), Dense(1)});
}

struct Part {
  std::string model_dir{};  // continues from it, and is saved there
  int replicas = 1;
  int64_t batches = 2 * kChunks;      // at the most; the data are read twice
  std::optional<int64_t> reset_at{};  // the batch that begins again
};

// Returns the variables in the checkpoint of a training: the state contains all streams, in their
// order.
std::map<std::string, Tensor> train(const Part& part) {
  const StrategyPtr strategy = mirrored({.replicas = part.replicas});
  const auto scope = strategy->scope(alone(5));
  scope.restore(part.model_dir);
  const Layer model = reader();
  const auto adam = optim::adam({.learning_rate = 0.05});
  int64_t made = 0;
  const auto step = [&](const Features& x, const Labels& y) {
    if (part.reset_at == made) CallContext::current()->reset_states();
    adam.minimize(losses::mean_squared_error(y, model(x)));
  };
  auto data = strategy->distribute(streams().repeat(2));  // save() returns its position
  for (const auto& batch : data) {
    strategy->run(step, batch);
    if (++made == part.batches) break;
  }
  scope.save(part.model_dir);
  return CheckpointManager(part.model_dir).load_latest()->checkpoint.tensors;
}

void expect_near(const std::map<std::string, Tensor>& found,
                 const std::map<std::string, Tensor>& expected, double tolerance) {
  for (const auto& [name, value] : expected) {
    if (name.starts_with("Adam/")) continue;  // its moments begin near 0
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(torch::allclose(found.at(name), value, tolerance, tolerance)) << name;
  }
}

TEST(StatefulLawTest, ReplicasGoOnWhereOneGoesOn) {
  TempDirectory temp;
  const auto one = train({.model_dir = temp / "1"});
  EXPECT_EQ(one.at("lstm/state_1").sizes(), (Shape{kStreams, 4}));
  EXPECT_EQ(one.at("rnn/state_0").sizes(), (Shape{kStreams, 3}));
  for (const int replicas : {2, 3})
    expect_near(train({temp / std::to_string(replicas), replicas}), one, 2e-4);
}

TEST(StatefulLawTest, ARunResumesOnAnyNumberOfReplicas) {
  TempDirectory temp;
  for (const int before : {1, 2}) {
    for (const int after : {1, 2, 3}) {
      const std::string from = std::to_string(before), dir = temp / (from + std::to_string(after));
      train({dir, before, 3});
      const auto resumed = train({dir, after});
      const auto whole = train({dir + "whole", after});
      ASSERT_EQ(resumed.size(), whole.size());
      if (before != after) {
        expect_near(resumed, whole, 2e-4);
        continue;
      }
      for (const auto& [name, value] : whole) EXPECT_TRUE(resumed.at(name).equal(value)) << name;
    }
  }
}

TEST(StatefulLawTest, AllReplicasBeginAnewWhereRequested) {
  TempDirectory temp;
  const auto one = train({.model_dir = temp / "1", .reset_at = 5});
  const auto never = train({.model_dir = temp / "never"});
  expect_near(train({.model_dir = temp / "2", .replicas = 2, .reset_at = 5}), one, 2e-4);
  EXPECT_FALSE(torch::allclose(never.at("lstm/state_1"), one.at("lstm/state_1"), 1e-3, 1e-3));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
