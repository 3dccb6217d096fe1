// Tests on a real GPU: CUDA's own kernels, streams and memory, which a stand-in cannot show.
// Elsewhere these tests are skipped.
#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/many_layers.h"
#include "muster/layers/embedding.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using distribute::mirrored;
using distribute::multi_worker_mirrored;
using distribute::one_device;
using distribute::StrategyPtr;
using nlohmann::json;
using testing::attends;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::many_layers;
using testing::quiet_config;
using testing::run_ranks;
using testing::same_bits;
using testing::train;
using testing::two_layers;

// Sums are made in another order there, and steps amplify the rounding.
constexpr double kRounding = 1e-4;

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gpus_ = static_cast<int>(torch::cuda::device_count());
    // The stand-in of estimator_device_test.cc covers everything that needs no GPU.
    if (gpus_ == 0) GTEST_SKIP() << "LibTorch sees no GPU here";
    // Or products and convolutions round to 11 bits, and convolutions add in any order.
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setDeterministicCuDNN(true);
  }
  int gpus_ = 0;
  TempDirectory directory_;
};

TEST_F(GpuTest, TrainsWhatTheCpuTrains) {
  for (const char* optimizer : {"sgd", "momentum", "adam", "adagrad", "clipped"}) {
    const json params{{"optimizer", optimizer}, {"dropout", 0.2}};
    const std::string name = optimizer;
    const Checkpoint here = train(directory_ / name, one_device(), two_layers, params);
    const Checkpoint there =
        train(directory_ / (name + "_gpu"), one_device("cuda"), two_layers, params);
    EXPECT_LT(largest_difference(there, here), kRounding) << optimizer;
  }
  const json params{{"optimizer", "momentum"}};
  const Checkpoint here = train(directory_ / "many", one_device(), many_layers, params);
  const Checkpoint there = train(directory_ / "many_gpu", one_device("cuda"), many_layers, params);
  EXPECT_LT(largest_difference(there, here), kRounding);
}

TEST_F(GpuTest, AttendsAsTheCpuDoes) {
  const Checkpoint here = train(directory_ / "cpu", one_device(), attends, json::object());
  const Checkpoint there = train(directory_ / "gpu", one_device("cuda"), attends, json::object());
  EXPECT_LT(largest_difference(there, here), kRounding);
  // Numbers rounded to 8 bits on the way are learned nearly as well.
  const Checkpoint mixed =
      train(directory_ / "mixed", one_device("cuda"), attends, {{"precision", "bfloat16"}});
  EXPECT_LT(largest_difference(mixed, here), 0.1);
}

// A replica may have no rows, where a batch is shorter than the others.
TEST_F(GpuTest, AttendsWhereThereAreNoRows) {
  for (const char* precision : {"float32", "bfloat16"}) {
    const ModelFn model_fn = [](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
      EstimatorSpec spec = attends(features, labels, mode, context);
      const auto net = context.model("net", []() -> Layer { throw std::logic_error("made"); });
      EXPECT_EQ(net(torch::zeros({0, 4, 8}, context.device())).size(0), 0);
      return spec;
    };
    train(directory_ / precision, one_device("cuda"), model_fn, {{"precision", precision}}, 2);
  }
}

TEST_F(GpuTest, TheSameSeedGivesTheSameBits) {
  const json params{{"optimizer", "adam"}, {"dropout", 0.2}};
  for (const auto& [name, model_fn] :
       {std::pair<std::string, ModelFn>{"two", two_layers}, {"many", many_layers}}) {
    EXPECT_TRUE(
        same_bits(train(directory_ / name, one_device("cuda"), model_fn, params),
                  train(directory_ / (name + "_again"), one_device("cuda"), model_fn, params)))
        << name;
  }
}

TEST_F(GpuTest, EvaluatesAndPredictsThere) {
  train(directory_ / "m", one_device("cuda"), many_layers, json::object());
  const InputFn held_out = [] { return examples(37, 2).batch(5); };
  RunConfig config = quiet_config(directory_ / "m");
  Estimator here(many_layers, config);
  config.eval_distribute = one_device("cuda");
  Estimator there(many_layers, config);
  const EvalResult expected = here.evaluate(held_out), result = there.evaluate(held_out);
  EXPECT_NEAR(result.at("loss"), expected.at("loss"), kRounding);
  EXPECT_EQ(result.at("accuracy"), expected.at("accuracy"));
  Predictions a = here.predict(held_out), b = there.predict(held_out);
  std::optional<Prediction> other;
  while (const auto one = a.next()) {
    ASSERT_TRUE(other = b.next());
    ASSERT_TRUE(other->at("logits").is_cpu());
    EXPECT_TRUE(other->at("logits").allclose(one->at("logits"), kRounding, kRounding));
  }
}

TEST_F(GpuTest, ARunContinuesThereAndBackOnTheCpu) {
  const json params{{"optimizer", "momentum"}};
  const Checkpoint whole = train(directory_ / "whole", one_device(), many_layers, params, 9);
  train(directory_ / "m", one_device(), many_layers, params, 3);
  train(directory_ / "m", one_device("cuda"), many_layers, params, 6);
  const Checkpoint parts = train(directory_ / "m", one_device(), many_layers, params, 9);
  EXPECT_LT(largest_difference(parts, whole), kRounding);
}

TEST_F(GpuTest, LoopsByHandRunThere) {
  const auto loop = [](const StrategyPtr& strategy) {
    const Layer model = Dense(1);
    const auto scope = strategy->scope({.seed = 5, .environment = Environment()});
    for (const auto& batch : strategy->distribute(examples(50).shuffle(50).batch(8))) {
      (void)strategy->run(
          [&](const Features& features, const Labels& labels) {
            EXPECT_EQ(features["x"].device(), distribute::ReplicaContext::current().device());
            const Tensor loss = losses::mean_squared_error(labels.tensor().to(kFloat32),
                                                           model(features["x"]).squeeze(-1));
            (void)optim::adam().minimize(loss);
            return loss.detach();
          },
          batch);
    }
    return scope.variable("dense/kernel").cpu();
  };
  EXPECT_TRUE(loop(one_device("cuda")).allclose(loop(one_device()), kRounding, kRounding));
  EXPECT_TRUE(
      loop(mirrored({.devices = {"cuda:0"}})).allclose(loop(one_device()), kRounding, kRounding));
}

// A kernel that meets one outside ends the use of the GPU for the whole process.
TEST_F(GpuTest, IdsAndLabelsOutsideAreNamed) {
  const auto told = [&](const ModelFn& model_fn) {
    return error_of([&] { train(directory_ / "m", one_device("cuda"), model_fn, json::object()); })
        .message();
  };
  EXPECT_THAT(told(testing::with_labels_outside), HasSubstr("is 2, outside [0, 2)"));
  EXPECT_THAT(told(testing::with_ids_outside),
              HasSubstr("is outside of the table e/embedding/embeddings"));
  EXPECT_THAT(told(testing::with_a_tensor_of_the_cpu), HasSubstr("to be on the same device"));
  // The error was found before the GPU was used.
  EXPECT_NO_THROW(train(directory_ / "good", one_device("cuda"), two_layers, json::object()));
}

TEST_F(GpuTest, ALossThatIsNoNumberEndsTheRun) {
  const ModelFn model_fn = [](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    EstimatorSpec spec = two_layers(features, labels, mode, context);
    spec.loss = spec.loss / (spec.loss.detach() - spec.loss.detach());
    return spec;
  };
  const Error error =
      error_of([&] { train(directory_ / "m", one_device("cuda"), model_fn, json::object()); });
  EXPECT_THAT(error.message(), HasSubstr("loss"));
}

TEST_F(GpuTest, SeveralTrainWhatSeveralReplicasOfTheCpuTrain) {
  // Two replicas of a process cannot have the same one.
  if (gpus_ < 2) GTEST_SKIP() << "there is one GPU";
  const json params{{"optimizer", "momentum"}};
  const Checkpoint here =
      train(directory_ / "cpus", mirrored({.replicas = gpus_}), many_layers, params);
  const Checkpoint there =
      train(directory_ / "gpus", mirrored({.devices = {"cuda"}}), many_layers, params);
  EXPECT_LT(largest_difference(there, here), kRounding);
}

// Through the CPU, if NCCL will not have it.
TEST_F(GpuTest, WorkersMayShareOne) {
  const json params{{"optimizer", "adam"}};
  const Checkpoint here = train(directory_ / "cpus", mirrored({.replicas = 2}), two_layers, params);
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    const StrategyPtr strategy = multi_worker_mirrored({.devices = {"cuda:0"}});
    Estimator(two_layers, quiet_config(directory_ / "gpu", strategy, cluster.environment(rank)),
              params)
        .train([] { return examples(53).shuffle(53).repeat(2).global_batch(12); });
  });
  EXPECT_LT(largest_difference(latest(directory_ / "gpu"), here), kRounding);
}

}  // namespace
}  // namespace muster::inline v0_1
