#include "muster/train/run_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/distribute/replica_threads.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using distribute::Replica;

// A state with these weights, of that step of a group.
RunMemory memory_of(int64_t epoch, int64_t step, const Tensor& weights) {
  auto state = std::make_shared<Checkpoint>();
  state->tensors = {{"weights", weights}, {"SGD/iterations", torch::full({}, step, at::kLong)}};
  state->global_step = step;
  state->inputs = nlohmann::json{{"train", {{"step", step}}}}.dump();
  return {.chief = "first",
          .epoch = epoch,
          .state = std::move(state),
          .saves = {.saved_step = step - 1, .tried_step = step - 1},
          .last_step = 100,
          .skipped_steps = 2,
          .roll_backs = 1};
}

// What each of three replicas has of the weights after they joined with `memories`.
std::vector<Tensor> join(std::vector<RunMemory>& memories, bool* found, int64_t* step) {
  const auto replicas = distribute::mirrored({.replicas = 3})->start_replicas({});
  std::vector<Tensor> weights(3);
  distribute::ReplicaThreads threads(3);
  threads.run([&](size_t at, const std::function<void()>&) {
    Replica& replica = *replicas[at];
    Engine engine(replica, 1);
    const bool continues = continue_from_memory(engine, memories[at]);
    const Tensor& variable =
        replica.variables()
            .get_or_create({.name = "weights",
                            .shape = {4},
                            .initializer =
                                [](const Shape& shape, DType dtype, RandomKey) {
                                  return torch::full(shape, 9, torch::TensorOptions(dtype));
                                }})
            .value();
    const auto sgd = optim::sgd({.learning_rate = 1});
    engine.build(sgd.minimize(torch::zeros({})));
    weights[at] = variable.detach().clone();
    if (at == 0) {
      *found = continues;
      *step = engine.step();
      if (continues) {
        EXPECT_EQ(engine.restored_inputs().at("train").at("step"), *step);
        EXPECT_TRUE(engine.found("weights").defined() == false) << "it was taken";
      }
    }
    engine.finish();
  });
  return weights;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.view(at::kInt).equal(b.view(at::kInt));
}

// The chief has not made step 8, which replicas 1 and 2 have. -0 keeps its sign.
TEST(RunMemory, TheHighestStepOfTheLastGroupCountsWhoeverHasIt) {
  const Tensor old = torch::full({4}, 1.0f), made = torch::tensor({-0.0f, 0.5f, 1e-40f, -3.0f});
  std::vector<RunMemory> memories = {memory_of(5, 7, old), memory_of(5, 8, made),
                                     memory_of(5, 8, made)};
  bool found = false;
  int64_t step = 0;
  for (const Tensor& weights : join(memories, &found, &step)) EXPECT_TRUE(same_bits(weights, made));
  EXPECT_TRUE(found);
  EXPECT_EQ(step, 8);
  for (const RunMemory& each : memories) {
    EXPECT_EQ(each.saves.saved_step, 7);
    EXPECT_EQ(each.last_step, 100);
    EXPECT_EQ(each.skipped_steps, 2);
    EXPECT_EQ(each.roll_backs, 1);
  }
}

// Replica 1 was given up while it lived, and made a step that the others have dropped. Replica 2 is
// new.
TEST(RunMemory, AStateOfAnEarlierGroupDoesNotCount) {
  const Tensor dropped = torch::full({4}, 1.0f), made = torch::full({4}, 2.0f);
  std::vector<RunMemory> memories = {memory_of(6, 8, made), memory_of(5, 9, dropped), RunMemory()};
  bool found = false;
  int64_t step = 0;
  for (const Tensor& weights : join(memories, &found, &step)) EXPECT_TRUE(same_bits(weights, made));
  EXPECT_TRUE(found);
  EXPECT_EQ(step, 8);
}

// The chief was restarted, on a machine whose date is earlier. Replica 1 did not hear that the
// chief was lost, and has an older state than the chief's checkpoint; replica 2 has trained with
// this chief.
TEST(RunMemory, AStateOfAnotherChiefDoesNotCount) {
  const Tensor old = torch::full({4}, 1.0f), made = torch::full({4}, 2.0f);
  std::vector<RunMemory> memories = {RunMemory{.chief = "second"}, memory_of(900, 6, old),
                                     memory_of(5, 8, made)};
  memories[2].chief = "second";
  bool found = false;
  int64_t step = 0;
  for (const Tensor& weights : join(memories, &found, &step)) EXPECT_TRUE(same_bits(weights, made));
  EXPECT_TRUE(found);
  EXPECT_EQ(step, 8);
  EXPECT_EQ(memories[1].epoch, -1);
  EXPECT_EQ(memories[1].chief, "second");
}

TEST(RunMemory, WithoutAnyTheRunBegins) {
  std::vector<RunMemory> memories(3);
  bool found = true;
  int64_t step = -1;
  for (const Tensor& weights : join(memories, &found, &step))
    EXPECT_TRUE(same_bits(weights, torch::full({4}, 9.0f)));
  EXPECT_FALSE(found);
  EXPECT_EQ(step, 0);
}

}  // namespace
}  // namespace muster::inline v0_1::internal
