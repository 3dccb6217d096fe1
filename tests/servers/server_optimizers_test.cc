// The parts of an optimizer besides its rule, if weights live on parameter servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/embedding.h"
#include "muster/optim/loss_scaling.h"
#include "muster/optim/reduce_on_plateau.h"
#include "muster/optim/schedules.h"
#include "muster/ps/parameter_server.h"
#include "tests/support/served_run.h"

namespace muster::inline v0_1 {
namespace {

using testing::largest_difference;
using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::train_served;

using Factor = std::function<double(int64_t call)>;

// A table of which a step uses few rows, and a dense weight, each with an optimizer of its own. The
// loss of the k-th call in training is multiplied by `factor(k)`.
ModelFn two_optimizers(const std::function<optim::Optimizer(optim::Optimizer)>& wrap,
                       const Factor& factor = {}) {
  const auto calls = std::make_shared<std::atomic<int64_t>>(0);
  return [=](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
    const auto table =
        context.model("net", [] { return Sequential({Embedding(40, 4, {.row_sparse = true})}); });
    const auto top = context.model("top", [] { return Dense(2); });
    Tensor loss = testing::loss_of(top(table(features["id"].remainder(40))), labels);
    if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
    if (factor && features["id"].size(0) > 0) {
      const double times = factor((*calls)++);
      // The loss keeps its value; its gradient does not.
      loss = loss.detach() + (loss - loss.detach()) * times;
    }
    const auto is_table = [](const VariableSpec& spec) { return spec.row_sparse; };
    const auto is_dense = [](const VariableSpec& spec) { return !spec.row_sparse; };
    const auto of_table = context.optimizer(wrap(optim::adam({.learning_rate = 0.01})));
    const auto of_dense =
        context.optimizer(wrap(optim::sgd({.learning_rate = 0.1, .momentum = 0.9})));
    return EstimatorSpec::train(
        loss, optim::group({of_table.minimize(loss, is_table), of_dense.minimize(loss, is_dense)}));
  };
}

class ServerOptimizersTest : public ::testing::Test {
 protected:
  // Trains twice, so that the second run continues the first, with and without servers. `model_fn`
  // makes one for each task, since it counts.
  void expect_same(const std::function<ModelFn()>& make_model,
                   const distribute::ParameterServerOptions& options = {}) {
    const ModelFn alone = make_model(), served = make_model();
    const std::string one = directory_ / "alone", other = directory_ / "served";
    for (const int64_t end : {7, 20}) {
      Estimator(alone, quiet_config(one)).train(input_, {.max_steps = end});
      train_served({.servers = 2, .options = options}, quiet_config(other), served, input_,
                   {.max_steps = end});
      EXPECT_TRUE(same_bits(latest(other), latest(one)))
          << end << " " << largest_difference(latest(other), latest(one));
    }
  }
  double number(const std::string& model_dir, const std::string& name) const {
    return latest(directory_ / model_dir).tensors.at(name).flatten()[0].item<double>();
  }

  TempDirectory directory_;
  const InputFn input_ = shuffled_batches(48, 8);
  const distribute::ParameterServerOptions cut_{.partitioner = plan::Partitioner::fixed(2)};
};

optim::ReduceOnPlateauOptions soon() {
  return {.steps = 2, .factor = 0.5, .patience = 0, .min_delta = 0.05};
}

TEST_F(ServerOptimizersTest, ReducedRatesAreThoseOfARunWithoutServers) {
  expect_same(
      [] {
        return two_optimizers(
            [](const optim::Optimizer& own) { return optim::reduce_on_plateau(own, soon()); });
      },
      cut_);
  EXPECT_LT(number("served", "Adam/plateau"), 0.5);
}

TEST_F(ServerOptimizersTest, AScheduleIsReducedToo) {
  expect_same([] {
    return two_optimizers([](const optim::Optimizer& own) {
      const auto decay = optim::exponential_decay(
          {.initial_learning_rate = 0.1, .decay_steps = 5, .decay_rate = 0.9});
      return optim::reduce_on_plateau(
          optim::sgd({.learning_rate = decay}).named("Reduced" + own.name()), soon());
    });
  });
}

// Every update counts once, in whatever order.
TEST_F(ServerOptimizersTest, AllWorkersLossesReduceOneRate) {
  for (const int together : {0, 3}) {
    const std::string model_dir = directory_ / std::to_string(together);
    const ModelFn model_fn = two_optimizers([](const optim::Optimizer& own) {
      return optim::reduce_on_plateau(own, {.steps = 1000, .factor = 0.5});
    });
    const Checkpoint end =
        train_served({.workers = 3, .servers = 2, .options = {.replicas_to_aggregate = together}},
                     quiet_config(model_dir), model_fn, input_, {.max_steps = 30});
    for (const std::string name : {"Adam/plateau", "SGD/plateau"}) {
      const Tensor& plateau = end.tensors.at(name);
      EXPECT_EQ(plateau[5].item<double>(), 30) << name << " " << together;  // losses so far
      EXPECT_GT(plateau[4].item<double>(), 0) << name << " " << together;   // their sum
    }
  }
}

TEST_F(ServerOptimizersTest, AScaledLossTrainsAsWithoutServers) {
  for (const bool dynamic : {true, false}) {
    expect_same(
        [&] {
          return two_optimizers([&](const optim::Optimizer& own) {
            return optim::loss_scaling(own, {.dynamic = dynamic, .dynamic_growth_steps = 5});
          });
        },
        cut_);
    std::filesystem::remove_all(std::string(directory_ / "alone"));
    std::filesystem::remove_all(std::string(directory_ / "served"));
  }
}

// A gradient that overflows updates nothing and halves the scale, but still counts as a step.
TEST_F(ServerOptimizersTest, AGradientThatOverflowsIsLeftOut) {
  const auto overflows = [](int64_t call) { return call % 4 == 2 ? 1e38 : 1.0; };
  expect_same(
      [&] {
        return two_optimizers(
            [](const optim::Optimizer& own) {
              return optim::loss_scaling(own, {.dynamic_growth_steps = 100});
            },
            overflows);
      },
      cut_);
  EXPECT_LT(number("served", "Adam/iterations"), 20);
  EXPECT_LT(number("served", "Adam/loss_scale"), 32768);
}

// Each has a scale of its own, which begins as the chief's.
TEST_F(ServerOptimizersTest, WorkersThatOverflowDoNotDisturbOthers) {
  for (const int together : {0, 2}) {
    const std::string model_dir = directory_ / std::to_string(together);
    const Checkpoint end = train_served(
        {.workers = 2, .servers = 2, .options = {.replicas_to_aggregate = together}},
        quiet_config(model_dir),
        two_optimizers([](const optim::Optimizer& own) { return optim::loss_scaling(own); },
                       [](int64_t call) { return call % 5 == 4 ? 1e38 : 1.0; }),
        input_, {.max_steps = 30});
    EXPECT_EQ(end.global_step, 30);
    const int64_t updates = end.tensors.at("SGD/iterations").item<int64_t>();
    EXPECT_GT(updates, 10) << together;
    EXPECT_LT(updates, 30) << together;
    EXPECT_EQ(end.tensors.at("Adam/iterations").item<int64_t>(), updates) << together;
    for (const auto& [name, tensor] : end.tensors)
      EXPECT_TRUE(!tensor.is_floating_point() || tensor.isfinite().all().item<bool>()) << name;
  }
}

}  // namespace
}  // namespace muster::inline v0_1
