// Training, evaluation and prediction on devices that are not the CPU: stand-ins whose tensors mix
// with no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/many_layers.h"
#include "muster/layers/constraints.h"
#include "muster/layers/embedding.h"
#include "muster/layers/regularizers.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/hooks.h"
#include "tests/support/local_cluster.h"
#include "tests/support/read_trace.h"
#include "tests/support/run_ranks.h"
#include "tests/support/test_device.h"

namespace muster::inline v0_1 {
namespace {

using distribute::mirrored;
using distribute::multi_worker_mirrored;
using distribute::one_device;
using distribute::StrategyPtr;
using nlohmann::json;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::many_layers;
using testing::quiet_config;
using testing::run_ranks;
using testing::same_bits;
using testing::test_device;
using testing::train;
using testing::two_layers;

// The CPU's loops and LibTorch's operations round differently in the last place, and steps add to
// it.
constexpr double kRounding = 1e-4;

std::string name_of(int device) { return test_device(device).str(); }

struct Case {
  std::string name{};
  ModelFn model_fn;
  json params{};
};
void PrintTo(const Case& law, std::ostream* out) { *out << law.name; }

// A layer with a penalty that only every second step uses, one with a constraint, and an optimizer
// that knows variables, scales losses and keeps averages.
EstimatorSpec penalized(const Features& features, const Labels& labels, Mode,
                        ModelContext& context) {
  auto always = context.model(
      "always", [] { return Dense(2, {.kernel_constraint = constraints::max_norm(0.5)}); });
  auto seldom = context.model(
      "seldom", [] { return Dense(2, {.kernel_regularizer = regularizers::l2(0.1)}); });
  Tensor logits = always(features["x"]);
  const Tensor more = seldom(features["x"]);
  if (context.global_step() % 2 == 0) logits = logits + more;
  const Tensor loss = testing::loss_of(logits, labels);
  const optim::Optimizer lamb = optim::clip_by_global_norm(optim::lamb({.learning_rate = 0.01}), 1);
  return EstimatorSpec::train(
      loss, context.optimizer(optim::exponential_moving_average(optim::loss_scaling(lamb)))
                .minimize(loss));
}

class DeviceLawTest : public ::testing::TestWithParam<Case> {};

// 53 examples: a ragged last batch, and a replica without data in it.
TEST_P(DeviceLawTest, DevicesTrainWhatTheCpuTrains) {
  const auto& [name, model_fn, params] = GetParam();
  TempDirectory directory;
  const Checkpoint one = train(directory / "cpu", one_device(), model_fn, params);
  const Checkpoint there = train(directory / "device", one_device(name_of(1)), model_fn, params);
  EXPECT_LT(largest_difference(there, one), kRounding);
  const Checkpoint two = train(directory / "cpus", mirrored({.replicas = 2}), model_fn, params);
  const Checkpoint both = train(directory / "devices",
                                mirrored({.devices = {name_of(0), name_of(2)}}), model_fn, params);
  EXPECT_LT(largest_difference(both, two), kRounding);
  // Again: the same bits.
  EXPECT_TRUE(same_bits(
      train(directory / "again", mirrored({.devices = {name_of(0), name_of(2)}}), model_fn, params),
      both));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DeviceLawTest,
    ::testing::Values(Case{"sgd", two_layers, json{{"optimizer", "sgd"}, {"dropout", 0.2}}},
                      Case{"momentum", two_layers, json{{"optimizer", "momentum"}}},
                      Case{"adam", two_layers, json{{"optimizer", "adam"}}},
                      Case{"adagrad", two_layers, json{{"optimizer", "adagrad"}}},
                      Case{"clipped", two_layers, json{{"optimizer", "clipped"}}},
                      Case{"accumulated", two_layers, json{{"accumulate", 2}}},
                      Case{"many_layers", many_layers, json{{"optimizer", "momentum"}}},
                      Case{"penalized", penalized, json::object()},
                      Case{"penalties_accumulated", penalized, json{{"accumulate", 2}}},
                      Case{"attention", testing::attends, json::object()}));

TEST(DeviceTest, EveryDeviceOfAKind) {
  TempDirectory directory;
  const Checkpoint four =
      train(directory / "cpus", mirrored({.replicas = 4}), many_layers, json::object());
  const Checkpoint all = train(directory / "devices", mirrored({.devices = {"privateuseone"}}),
                               many_layers, json::object());
  EXPECT_LT(largest_difference(all, four), kRounding);
  const StrategyPtr named = distribute::strategy_by_name("mirrored:privateuseone:1," + name_of(3));
  EXPECT_EQ(named->device(), test_device(1));
}

TEST(DeviceTest, SeveralWorkersWithSeveralDevices) {
  for (const Transport transport : {Transport::kAuto, Transport::kTcp}) {
    TempDirectory directory;
    const InputFn input = [] { return examples(53).shuffle(53).repeat(2).global_batch(12); };
    const InputFn held_out = [] { return examples(37, 2).batch(5); };
    const json params{{"optimizer", "momentum"}};
    const Checkpoint four =
        train(directory / "cpus", mirrored({.replicas = 4}), many_layers, params);
    const LocalCluster cluster(2);
    std::mutex mutex;
    std::vector<EvalResult> results;
    run_ranks(2, [&](int rank) {
      const StrategyPtr strategy = multi_worker_mirrored(
          {.devices = {name_of(2 * rank), name_of(2 * rank + 1)}, .implementation = transport});
      RunConfig config = quiet_config(directory / "m", strategy, cluster.environment(rank));
      config.eval_distribute = strategy;
      Estimator estimator(many_layers, config, params);
      const auto result =
          train_and_evaluate(estimator,
                             {.input_fn = input,
                              .max_steps = 1000,
                              .hooks = {hooks::profiler({.every = {.steps = 100}})}},
                             {.input_fn = held_out, .steps = std::nullopt});
      const std::lock_guard lock(mutex);
      if (result) results.push_back(*result);
    });
    EXPECT_LT(largest_difference(latest(directory / "m"), four), kRounding);
    // Steps and buckets of each replica.
    const testing::TraceRows rows = testing::read_trace(directory / "m" + "/timeline-2.json");
    EXPECT_EQ(rows.size(), 2u * 2 * 2);
    EXPECT_TRUE(rows.contains({"worker 1", "reduction of replica 3"}));
    ASSERT_FALSE(results.empty());
    const EvalResult here =
        Estimator(many_layers, quiet_config(directory / "m"), params).evaluate(held_out);
    EXPECT_NEAR(results[0].at("loss"), here.at("loss"), kRounding);
    EXPECT_EQ(results[0].at("accuracy"), here.at("accuracy"));
  }
}

TEST(DeviceTest, EvaluatesAndPredictsThere) {
  TempDirectory directory;
  train(directory / "m", one_device(name_of(0)), many_layers, json::object());
  const InputFn held_out = [] { return examples(37, 2).batch(5); };
  RunConfig config = quiet_config(directory / "m");
  Estimator here(many_layers, config);
  config.eval_distribute = mirrored({.devices = {name_of(1), name_of(2)}});
  std::vector<Device> seen;
  std::mutex mutex;
  Estimator there(
      [&](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        const std::lock_guard lock(mutex);
        seen.push_back(context.device());
        return many_layers(features, labels, mode, context);
      },
      config);
  const EvalResult expected = here.evaluate(held_out), result = there.evaluate(held_out);
  EXPECT_NEAR(result.at("loss"), expected.at("loss"), kRounding);
  EXPECT_EQ(result.at("accuracy"), expected.at("accuracy"));
  EXPECT_THAT(seen, ::testing::Contains(test_device(1)));
  EXPECT_THAT(seen, ::testing::Contains(test_device(2)));
  Predictions a = here.predict(held_out), b = there.predict(held_out);
  std::optional<Prediction> other;
  int64_t rows = 0;
  while (const auto one = a.next()) {
    ASSERT_TRUE(other = b.next());
    ASSERT_TRUE(other->at("logits").is_cpu());
    EXPECT_TRUE(other->at("logits").allclose(one->at("logits"), kRounding, kRounding));
    ++rows;
  }
  EXPECT_EQ(rows, 37);
}

TEST(DeviceTest, ARunContinuesOnAnotherDevice) {
  TempDirectory directory;
  const json params{{"optimizer", "momentum"}};
  const Checkpoint whole = train(directory / "whole", one_device(), many_layers, params, 9);
  train(directory / "m", one_device(), many_layers, params, 3);
  train(directory / "m", one_device(name_of(2)), many_layers, params, 6);
  const Checkpoint parts = train(directory / "m", one_device(), many_layers, params, 9);
  EXPECT_LT(largest_difference(parts, whole), kRounding);
  // Statistics that each replica has its own of, too.
  const Checkpoint two =
      train(directory / "two", mirrored({.replicas = 2}), many_layers, params, 9);
  train(directory / "n", mirrored({.replicas = 2}), many_layers, params, 4);
  const Checkpoint on = train(directory / "n", mirrored({.devices = {name_of(0), name_of(1)}}),
                              many_layers, params, 9);
  EXPECT_LT(largest_difference(on, two), kRounding);
}

TEST(DeviceTest, NothingIsLeftThere) {
  TempDirectory directory;
  train(directory / "first", mirrored({.devices = {name_of(0), name_of(1)}}), many_layers,
        json::object());
  const int64_t before = testing::test_device_bytes();
  train(directory / "m", mirrored({.devices = {name_of(0), name_of(1)}}), many_layers,
        json::object());
  EXPECT_EQ(testing::test_device_bytes(), before);
}

TEST(DeviceTest, LoopsByHandRunThere) {
  const auto loop = [](const StrategyPtr& strategy) {
    const Layer model = Dense(1);
    const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
    auto data = strategy->distribute(examples(50).shuffle(50).batch(8));
    Tensor seen, all;
    for (const auto& batch : data) {
      const auto losses = strategy->run(
          [&](const Features& features, const Labels& labels) {
            const distribute::ReplicaContext& context = distribute::ReplicaContext::current();
            EXPECT_EQ(features["x"].device(), context.device());
            const Tensor loss = losses::mean_squared_error(labels.tensor().to(kFloat32),
                                                           model(features["x"]).squeeze(-1));
            (void)optim::adam().minimize(loss);
            return context.all_reduce(distribute::ReduceOp::kMean, loss.detach());
          },
          batch);
      seen = strategy->reduce(distribute::ReduceOp::kMean, losses);
      all = strategy->gather(strategy->run(
          [] { return torch::ones({2}, distribute::ReplicaContext::current().device()); }));
    }
    EXPECT_EQ(all.numel(), 2 * scope.num_replicas_in_sync());
    EXPECT_EQ(seen.device(), strategy->device());
    return scope.variable("dense/kernel").cpu();
  };
  const auto close = [&](const StrategyPtr& there, const StrategyPtr& here) {
    return loop(there).allclose(loop(here), kRounding, kRounding);
  };
  EXPECT_TRUE(close(one_device(name_of(3)), one_device()));
  EXPECT_TRUE(close(mirrored({.devices = {name_of(0), name_of(1)}}), mirrored({.replicas = 2})));
}

TEST(DeviceTest, ATensorMadeOnTheCpuIsToldFromTheOthers) {
  TempDirectory directory;
  const Error error = error_of([&] {
    train(directory / "m", one_device(name_of(1)), testing::with_a_tensor_of_the_cpu,
          json::object());
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("to be on the same device"));
  EXPECT_THAT(error.hint(), HasSubstr("variables are on privateuseone:1"));
  EXPECT_THAT(error.hint(), HasSubstr("device() of the ModelContext"));
}

TEST(DeviceTest, IdsAndLabelsOutsideAreNamed) {
  TempDirectory directory;
  const auto told = [&](const ModelFn& model_fn) {
    return error_of(
               [&] { train(directory / "m", one_device(name_of(1)), model_fn, json::object()); })
        .message();
  };
  EXPECT_THAT(told(testing::with_labels_outside), HasSubstr("is 2, outside [0, 2)"));
  EXPECT_THAT(told(testing::with_ids_outside),
              HasSubstr("is outside of the table e/embedding/embeddings"));
}

// As torchrun says it: process `rank` of `size` on this machine.
void as_process(int rank, int size) {
  const auto set = [](const char* name, int value) {
    ::setenv(name, std::to_string(value).c_str(), 1);
  };
  set("RANK", rank);
  set("WORLD_SIZE", size);
  set("GROUP_RANK", 0);
  set("LOCAL_RANK", rank);
  set("LOCAL_WORLD_SIZE", size);
}

TEST(DeviceTest, ProcessesThatALauncherStartedShareTheDevices) {
  const auto devices = [] {
    std::string names;
    for (const Device& device : distribute::replica_devices({"privateuseone"}, 1))
      names += std::to_string(device.index());
    return names;
  };
  EXPECT_EQ(devices(), "0123");
  std::vector<std::string> of_two, of_four;
  for (int rank = 0; rank < 2; ++rank) {
    as_process(rank, 2);
    of_two.push_back(devices());
  }
  for (int rank = 0; rank < 4; ++rank) {
    as_process(rank, 4);
    of_four.push_back(devices());
    EXPECT_EQ(one_device("privateuseone")->device(), testing::test_device(rank));
  }
  as_process(7, 8);  // each was given its own, or they share
  EXPECT_EQ(devices(), "0123");
  for (const char* name : {"RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    ::unsetenv(name);
  EXPECT_EQ(of_two, (std::vector<std::string>{"01", "23"}));
  EXPECT_EQ(of_four, (std::vector<std::string>{"0", "1", "2", "3"}));
}

TEST(DeviceTest, DevicesThatAreNotThere) {
  const auto message = [](auto fn) { return std::string(error_of(fn).what()); };
  EXPECT_THAT(message([] { one_device("gpu"); }), HasSubstr("there is no device \"gpu\""));
  EXPECT_THAT(message([] { one_device("privateuseone:4"); }),
              HasSubstr("\"privateuseone:4\" does not exist: there are privateuseone:0 to "
                        "privateuseone:3"));
  EXPECT_THAT(message([] {
                mirrored({.devices = {"privateuseone:1", "cpu"}});
              }),
              HasSubstr("devices of several kinds"));
  EXPECT_THAT(message([] {
                mirrored({.devices = {"privateuseone:1", "privateuseone"}});
              }),
              HasSubstr("name privateuseone:1 twice"));
  EXPECT_EQ(mirrored({.devices = {"cpu", "cpu"}})->device(), Device(at::kCPU));
  EXPECT_THAT(message([] { distribute::strategy_by_name("mirrored:gpu"); }),
              HasSubstr("there is no strategy 'mirrored:gpu'"));
  EXPECT_THAT(message([] { distribute::strategy_by_name("mirrored:privateuseone:4"); }),
              HasSubstr("there are privateuseone:0 to"));
  if (torch::cuda::is_available()) return;
  for (const char* name : {"cuda", "cuda:1"}) {
    EXPECT_THAT(message([&] { one_device(name); }),
                HasSubstr("the device \"" + std::string(name) + "\""));
    EXPECT_THAT(message([&] { multi_worker_mirrored({.devices = {name}}); }), HasSubstr("\"cpu\""));
  }
}

TEST(DeviceTest, WorkersOnDevicesOfDifferentKindsAreNamed) {
  TempDirectory directory;
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const StrategyPtr strategy =
        multi_worker_mirrored({.devices = {rank == 0 ? "cpu" : name_of(0)}});
    Estimator estimator(two_layers,
                        quiet_config(directory / "m", strategy, cluster.environment(rank)));
    const Error error = error_of([&] { estimator.train([] { return examples(10).batch(2); }); });
    EXPECT_THAT(error.message(), HasSubstr("worker 0 trains 1 local replicas, worker 1 trains 1 on "
                                           "privateuseone"));
  });
}

}  // namespace
}  // namespace muster::inline v0_1
