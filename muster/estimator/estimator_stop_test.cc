// A program ends its own runs: RunConfig::cancelled and request_stop().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/data/element_queue.h"
#include "muster/data/own_reader.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/loop/scope.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/hook.h"
#include "muster/train/stop_request.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::two_layers;

const nlohmann::json kParams{{"optimizer", "adam"}};
constexpr int64_t kNever = 1'000'000'000;

Dataset batches_without_end() { return examples(60).shuffle(60).repeat().global_batch(12); }

// Calls `then` after that step, on this worker.
class AfterStep final : public Hook {
 public:
  AfterStep(int64_t step, std::function<void()> then) : step_(step), then_(std::move(then)) {}
  void after_step(const StepInfo& info) override {
    if (info.global_step == step_) then_();
  }

 private:
  const int64_t step_;
  const std::function<void()> then_;
};

// Calls request_stop() on a thread of its own as soon as `ready`, again and again until the run has
// ended: one may come before the run begins.
class Requests {
 public:
  explicit Requests(std::function<bool()> ready = [] { return true; })
      : thread_([this, ready = std::move(ready)] {
          while (!over_) {
            if (ready()) request_stop();
            std::this_thread::sleep_for(20ms);  // between two requests, until the run has ended
          }
        }) {}
  ~Requests() {
    over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(StopTest, CancelledEndsARunThatSavesAndReturns) {
  TempDirectory temp;
  std::atomic<bool> asked{false};
  RunConfig config = quiet_config(temp / "m");
  config.cancelled = [&] { return asked.load(); };
  Estimator estimator(two_layers, config, kParams);
  const auto ask = std::make_shared<AfterStep>(13, [&] { asked = true; });
  const TrainResult result =
      estimator.train(batches_without_end, {.max_steps = kNever, .hooks = {ask}});
  EXPECT_TRUE(result.stopped);
  EXPECT_GE(result.global_step, 13);
  EXPECT_LE(result.global_step, 14);
  EXPECT_EQ(latest(temp / "m").global_step, result.global_step);
  // As long as it is asked, it makes no step.
  EXPECT_EQ(estimator.train(batches_without_end, {.max_steps = kNever}).steps, 0);
  asked = false;
  EXPECT_EQ(estimator.train(batches_without_end, {.steps = 2}).steps, 2);
}

TEST(StopTest, ARequestEndsTheRunsUnderWayAndNoLaterOnes) {
  TempDirectory temp;
  request_stop();
  Estimator estimator(two_layers, quiet_config(temp / "m"), kParams);
  EXPECT_EQ(estimator.train(batches_without_end, {.max_steps = 3}).global_step, 3);
  const auto ask = std::make_shared<AfterStep>(5, [] { request_stop(); });
  EXPECT_TRUE(estimator.train(batches_without_end, {.max_steps = kNever, .hooks = {ask}}).stopped);
  EXPECT_EQ(estimator.train(batches_without_end, {.max_steps = 20}).global_step, 20);
}

// A queue that gives some batches of examples and stays open.
std::shared_ptr<data::ElementQueue> queue_of(int64_t batches) {
  const auto queue = std::make_shared<data::ElementQueue>();
  const auto iterator = examples(12 * batches).iterator();
  while (auto element = iterator->next()) queue->push(*std::move(element));
  return queue;
}

TEST(StopTest, AWaitForDataEnds) {
  TempDirectory temp;
  Estimator estimator(two_layers, quiet_config(temp / "m"), kParams);
  const auto queue = queue_of(4);
  const InputFn input = [&] { return data::from_queue(queue).batch(12).prefetch(1); };
  const auto ask = std::make_shared<AfterStep>(4, [] { request_stop(); });
  const TrainResult result = estimator.train(input, {.max_steps = kNever, .hooks = {ask}});
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.global_step, 4);
  EXPECT_EQ(latest(temp / "m").global_step, 4);
  const Requests requests;
  // It waits for its first batch.
  const TrainResult second = estimator.train(input, {.max_steps = kNever});
  EXPECT_TRUE(second.stopped);
  EXPECT_EQ(second.steps, 0);
  const auto eval_queue = queue_of(1);
  EXPECT_EQ(error_of([&] {
              estimator.evaluate([&] { return data::from_queue(eval_queue).batch(6).prefetch(1); });
            }).kind(),
            ErrorKind::kCancelled);
}

TEST(StopTest, AWaitForDataEndsWhileStepsAreMade) {
  TempDirectory temp;
  std::atomic<bool> waits = false, trained = false;
  const auto queue = queue_of(3);
  const InputFn input = [&] {
    return data::from_reader([&] {
             return data::OwnReader{.next = [&]() -> std::optional<Element> {
               if (auto element = queue->pop()) return element;
               waits = true;
               while (!data::reading_is_over()) std::this_thread::yield();
               throw std::runtime_error("nobody waits");
             }};
           })
        .batch(12)
        .prefetch(1);
  };
  queue->close();
  const Requests requests([&] { return waits && trained; });
  const auto after = std::make_shared<AfterStep>(3, [&] { trained = true; });
  const TrainResult result = Estimator(two_layers, quiet_config(temp / "m"), kParams)
                                 .train(input, {.max_steps = kNever, .hooks = {after}});
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(result.end_of_input);
  EXPECT_EQ(result.global_step, 3);
  EXPECT_EQ(latest(temp / "m").global_step, 3);
}

TEST(StopTest, OneWorkerIsAskedAndAllEndAfterTheSameStep) {
  TempDirectory temp;
  const LocalCluster cluster(2);
  std::array<TrainResult, 2> results;
  testing::run_ranks(2, [&](int rank) {
    std::atomic<bool> asked{false};
    RunConfig config =
        quiet_config(temp / "m", distribute::multi_worker_mirrored(), cluster.environment(rank));
    config.cancelled = [&] { return asked.load(); };
    std::vector<std::shared_ptr<Hook>> hooks;
    if (rank == 1) hooks.push_back(std::make_shared<AfterStep>(7, [&] { asked = true; }));
    results[static_cast<size_t>(rank)] =
        Estimator(two_layers, config, kParams)
            .train(batches_without_end, {.max_steps = kNever, .hooks = hooks});
  });
  EXPECT_TRUE(results[0].stopped && results[1].stopped);
  EXPECT_EQ(results[0].global_step, results[1].global_step);
  EXPECT_GE(results[0].global_step, 7);
  EXPECT_LE(results[0].global_step, 9);
  EXPECT_EQ(latest(temp / "m").global_step, results[0].global_step);
}

TEST(StopTest, AWaitForAnotherWorkerEnds) {
  for (const int rank : {0, 1}) {
    TempDirectory temp;
    const LocalCluster cluster(2);
    Estimator estimator(
        two_layers,
        quiet_config(temp / "m", distribute::multi_worker_mirrored(), cluster.environment(rank)),
        kParams);
    const auto begun = std::chrono::steady_clock::now();
    const Requests requests;
    const TrainResult result = estimator.train(batches_without_end, {.max_steps = kNever});
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(result.steps, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 60s) << "worker " << rank;
  }
}

TEST(StopTest, AWaitForModelDirEnds) {
  TempDirectory temp;
  CheckpointWriter other(temp / "m", {}, [] { return false; });
  Estimator estimator(two_layers, quiet_config(temp / "m"), kParams);
  const Requests requests;
  const TrainResult result = estimator.train(batches_without_end, {.max_steps = kNever});
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.steps, 0);
}

// Counts the batches of an evaluation.
class CountBatches final : public Hook {
 public:
  explicit CountBatches(std::atomic<int>& batches) : batches_(batches) {}
  void after_step(const StepInfo&) override { ++batches_; }

 private:
  std::atomic<int>& batches_;
};

TEST(StopTest, AnEvaluationEnds) {
  TempDirectory temp;
  Estimator estimator(two_layers, quiet_config(temp / "m"), kParams);
  std::atomic<int> batches{0};
  const auto count = std::make_shared<CountBatches>(batches);
  EvalSpec spec{.input_fn = batches_without_end, .steps = std::nullopt};
  spec.hooks = {count};
  {
    const Requests requests([&] { return batches > 3; });
    // After the first save, the evaluation would never end.
    const auto result =
        train_and_evaluate(estimator, {.input_fn = batches_without_end, .max_steps = kNever},
                           std::vector<EvalSpec>{spec});
    EXPECT_TRUE(result.training.stopped);
    EXPECT_GE(result.training.global_step, 10);
    EXPECT_LE(result.training.global_step, 11);
    EXPECT_EQ(latest(temp / "m").global_step, result.training.global_step);
  }
  batches = 0;
  const Requests requests([&] { return batches > 3; });
  EXPECT_EQ(error_of([&] {
              (void)estimator.evaluate(batches_without_end,
                                       {.steps = std::nullopt, .hooks = {count}});
            }).kind(),
            ErrorKind::kCancelled);
}

// The chief evaluates and the other worker waits for it.
TEST(StopTest, AWaitForAnEvaluationElsewhereEnds) {
  TempDirectory temp;
  const LocalCluster cluster(2, /*chief=*/true);
  std::atomic<int> batches{0};
  std::array<int64_t, 2> steps{};
  const Requests requests([&] { return batches > 3; });
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(
        two_layers,
        quiet_config(temp / "m", distribute::multi_worker_mirrored(), cluster.environment(rank)),
        kParams);
    EvalSpec spec{.input_fn = batches_without_end, .steps = std::nullopt};
    spec.hooks = {std::make_shared<CountBatches>(batches)};
    const auto result =
        train_and_evaluate(estimator, {.input_fn = batches_without_end, .max_steps = kNever},
                           std::vector<EvalSpec>{spec});
    EXPECT_TRUE(result.training.stopped);
    steps[static_cast<size_t>(rank)] = result.training.global_step;
  });
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_EQ(latest(temp / "m").global_step, steps[0]);
}

TEST(StopTest, ALoopLearnsOfARequest) {
  const LocalCluster cluster(2);
  std::array<int64_t, 2> steps{};
  testing::run_ranks(2, [&](int rank) {
    const auto strategy = distribute::multi_worker_mirrored();
    const auto scope = strategy->scope({.environment = cluster.environment(rank)});
    const Layer model = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 0.01});
    while (!scope.should_stop()) {
      strategy->run([&] { sgd.minimize(model(torch::ones({2, 3})).mean()); });
      if (rank == 0 && scope.step() == 5) request_stop();
    }
    steps[static_cast<size_t>(rank)] = scope.step();
  });
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GE(steps[0], 5);
  EXPECT_LE(steps[0], 7);
}

}  // namespace
}  // namespace muster::inline v0_1
