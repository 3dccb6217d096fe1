#include "muster/parallel/loop_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <cmath>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using ::testing::HasSubstr;
using testing::random;
using testing::run_workers;

struct Trained {
  int64_t restored = 0;
  std::vector<Tensor> values{};
};

// Trains a net with BatchNorm from where `directory` stands to `last`, and saves there.
Trained train(Cluster& cluster, const std::string& directory, int64_t last) {
  torch::nn::Sequential plain(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                              torch::nn::Linear(8, 1));
  {
    torch::NoGradGuard no_grad;
    uint64_t seed = 0;
    for (Tensor& parameter : plain->parameters())
      parameter.copy_(random(parameter.sizes().vec(), ++seed));
  }
  auto net = cluster.data_parallel(plain, {.name = "net"});
  torch::optim::Adam adam(plain->parameters(), torch::optim::AdamOptions(1e-2));
  int64_t examples = 0;
  double best = 0.5;
  int64_t position = 0;
  auto checkpoint = cluster.checkpoint(directory);
  checkpoint.add("net", net)
      .add("adam", adam)
      .add("examples", examples)
      .add("best", best)
      .add(
          "reader", [&] { return std::to_string(position); },
          [&](const std::string& text) { position = std::stoll(text); });
  Trained trained{.restored = checkpoint.restore()};
  for (int64_t step = trained.restored; step < last; ++step) {
    EXPECT_EQ(position, step);
    adam.zero_grad();
    const Tensor x =
        random({12, 4}, 100 + uint64_t(position)).chunk(cluster.size(), 0)[size_t(cluster.rank())];
    net->forward(x).pow(2).mean().backward();
    adam.step();
    ++position;
    examples += 12;
    best *= 0.5;
  }
  EXPECT_EQ(examples, 12 * last);
  checkpoint.save(last);
  for (const Tensor& parameter : plain->parameters())
    trained.values.push_back(parameter.detach().clone());
  return trained;
}

TEST(LoopCheckpointTest, ARunThatIsContinuedHasTheBitsOfOneThatWasNot) {
  const TempDirectory directory;
  std::vector<Tensor> whole, parts;
  const auto as_two = [&](const std::string& name, int64_t last, std::vector<Tensor>* values,
                          int64_t restored) {
    run_workers(2, [&](Cluster& cluster) {
      const Trained trained = train(cluster, directory.path() + "/" + name, last);
      EXPECT_EQ(trained.restored, restored);
      if (cluster.is_chief()) *values = trained.values;
    });
  };
  // The statistics that each worker has of its own do not change what it learns in training.
  as_two("whole", 6, &whole, 0);
  as_two("parts", 3, &parts, 0);
  as_two("parts", 6, &parts, 3);
  ASSERT_EQ(whole.size(), parts.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(whole[i].equal(parts[i]));
}

// The numbers change while a thread writes those of an earlier step.
TEST(LoopCheckpointTest, AThreadWritesTheStateOfItsStep) {
  const TempDirectory directory;
  Cluster cluster(alone());
  torch::nn::Linear layer(300, 300);
  torch::optim::SGD sgd(layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  int64_t number = 0;
  auto checkpoint =
      cluster.checkpoint(directory.path(), LoopCheckpointOptions{.keep_checkpoint_max = 0});
  checkpoint.add("net", layer).add("sgd", sgd).add("number", number);
  std::vector<Tensor> weights;
  for (int64_t step = 1; step <= 6; ++step) {
    sgd.zero_grad();
    layer(random({2, 300}, uint64_t(step))).pow(2).mean().backward();
    sgd.step();
    number = step;
    weights.push_back(layer->weight.detach().clone());
    EXPECT_EQ(checkpoint.save(step, {.asynchronous = step < 6}),
              directory.path() + "/model.ckpt-" + std::to_string(step));
  }
  for (size_t step = 1; step <= 6; ++step) {
    const Checkpoint saved = CheckpointManager(directory.path())
                                 .load(directory.path() + "/model.ckpt-" + std::to_string(step));
    EXPECT_TRUE(saved.tensors.at("net/weight").equal(weights[step - 1])) << step;
    EXPECT_EQ(saved.tensors.at("number").item<int64_t>(), static_cast<int64_t>(step));
  }
}

TEST(LoopCheckpointTest, ARunIsContinuedOnAnotherNumberOfWorkers) {
  const TempDirectory directory;
  const std::string model = directory.path() + "/model";
  run_workers(2, [&](Cluster& cluster) { EXPECT_EQ(train(cluster, model, 3).restored, 0); });
  run_workers(3, [&](Cluster& cluster) { EXPECT_EQ(train(cluster, model, 5).restored, 3); });
  Cluster one(alone());
  EXPECT_EQ(train(one, model, 6).restored, 5);
}

class LoopCheckpointWayTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, LoopCheckpointWayTest, ::testing::Bool());

TEST_P(LoopCheckpointWayTest, AWorkerWithoutDataTakesPartInSaves) {
  const TempDirectory directory;
  const auto run = [&](Cluster& cluster, int64_t steps, bool restores) {
    const torch::nn::Linear plain(3, 1);
    auto net = cluster.data_parallel(plain);
    torch::optim::SGD sgd(plain->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto checkpoint = cluster.checkpoint(directory.path());
    checkpoint.add("net", net).add("sgd", sgd);
    const int64_t begin = checkpoint.restore();
    EXPECT_EQ(begin, restores ? 4 : 0);
    for (int64_t step = begin; step < begin + steps; ++step) {
      sgd.zero_grad();
      net(torch::ones({2, 3})).sum().backward();
      sgd.step();
      if (step % 2 == 1) checkpoint.save(step + 1, {.asynchronous = GetParam()});
    }
    cluster.join();
    return plain->weight.detach().clone();
  };
  // The chief, which writes, is the one without data.
  Tensor weight;
  run_workers(2, [&](Cluster& cluster) {
    const Tensor mine = run(cluster, cluster.is_chief() ? 1 : 4, false);
    if (cluster.is_chief()) weight = mine;
  });
  run_workers(2, [&](Cluster& cluster) {
    const Tensor mine = run(cluster, 0, true);
    EXPECT_TRUE(mine.equal(weight));
  });
}

TEST(LoopCheckpointTest, WhatDoesNotFitIsListed) {
  const TempDirectory directory;
  Cluster cluster(alone());
  const torch::nn::Linear two(3, 2), four(3, 4);
  cluster.checkpoint(directory.path()).add("net", two).save(1);
  LoopCheckpoint other = cluster.checkpoint(directory.path());
  other.add("net", four);
  const Error error = error_of([&] { other.restore(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("net/weight"));
}

TEST(LoopCheckpointTest, WeightsThatAreNotFiniteAreNotSaved) {
  const TempDirectory directory;
  const torch::nn::Linear layer(3, 1);
  const auto save = [&](int64_t step) {
    Cluster cluster(alone());
    return cluster.checkpoint(directory.path()).add("net", layer).save(step);
  };
  save(1);
  {
    torch::NoGradGuard no_grad;
    layer->bias.fill_(NAN);
  }
  const Error error = error_of([&] { save(2); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.message(), HasSubstr("net/bias holds nan"));
  Cluster cluster(alone());
  EXPECT_EQ(cluster.checkpoint(directory.path()).add("net", layer).restore(), 1);
  EXPECT_TRUE(layer->bias.isfinite().all().item<bool>());
}

TEST(LoopCheckpointTest, ANameIsGivenOnce) {
  const TempDirectory directory;
  Cluster cluster(alone());
  int64_t number = 0;
  LoopCheckpoint checkpoint = cluster.checkpoint(directory.path());
  checkpoint.add("epoch", number);
  EXPECT_THAT(error_of([&] { checkpoint.add("epoch", number); }).message(),
              HasSubstr("given the name \"epoch\""));
}

}  // namespace
}  // namespace muster::inline v0_1
