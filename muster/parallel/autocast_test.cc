#include "muster/parallel/autocast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include "muster/base/error_of.h"
#include "muster/parallel/cluster.h"
#include "muster/parallel/sync_batch_norm.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using ::testing::HasSubstr;
using testing::random;
using testing::run_workers;

TEST(AutocastTest, HoldsWhileItLivesAndNests) {
  torch::nn::Linear layer(4, 2);
  const Tensor x = random({3, 4}, 1);
  {
    const Autocast outer;
    {
      const Autocast inner;
      EXPECT_EQ(layer(x).scalar_type(), kBFloat16);
    }
    EXPECT_EQ(layer(x).scalar_type(), kBFloat16);
  }
  EXPECT_EQ(layer(x).scalar_type(), kFloat32);
  // The copy of the weight in 16 bits is gone.
  {
    torch::NoGradGuard no_grad;
    layer->weight.zero_();
    layer->bias.zero_();
  }
  const Autocast again;
  EXPECT_TRUE(layer(x).eq(0).all().item<bool>());
}

// The losses of some steps of a network with SyncBatchNorm, in mixed precision or not.
std::vector<double> losses(Cluster& cluster, bool mixed) {
  torch::nn::Sequential plain(torch::nn::Linear(4, 16), SyncBatchNorm(16), torch::nn::ReLU(),
                              torch::nn::Linear(16, 1));
  {
    torch::NoGradGuard no_grad;
    uint64_t seed = 0;
    for (Tensor& parameter : plain->parameters())
      parameter.copy_(random(parameter.sizes().vec(), ++seed) * 0.5);
  }
  auto net = cluster.data_parallel(plain);
  torch::optim::SGD sgd(plain->parameters(), 0.02);
  std::vector<double> result;
  for (int step = 0; step < 20; ++step) {
    const Tensor x =
        random({12, 4}, 1 + uint64_t(step)).chunk(cluster.size(), 0)[size_t(cluster.rank())];
    sgd.zero_grad();
    Tensor loss;
    {
      std::optional<Autocast> autocast;
      if (mixed) autocast.emplace();
      const Tensor y = net->forward(x);
      EXPECT_EQ(y.scalar_type(), mixed ? kBFloat16 : kFloat32);
      loss = (y.to(kFloat32) - x.sum(1, true)).pow(2).mean();
    }
    loss.backward();
    EXPECT_EQ(plain[0]->as<torch::nn::Linear>()->weight.grad().scalar_type(), kFloat32);
    sgd.step();
    result.push_back(cluster.all_reduce(loss.detach(), ReduceOp::kMean).item<double>());
  }
  return result;
}

TEST(AutocastTest, WorkersTrainInMixedPrecision) {
  Cluster one(alone());
  const std::vector<double> expected = losses(one, false);
  run_workers(2, [&](Cluster& cluster) {
    const std::vector<double> mixed = losses(cluster, true);
    EXPECT_LT(mixed.back(), 0.5 * mixed.front());
    // bfloat16 has 8 bits: each product is off by up to 1/256.
    for (size_t i = 0; i < mixed.size(); ++i)
      EXPECT_NEAR(mixed[i], expected[i], 0.1 * expected[i]) << i;
  });
}

TEST(AutocastTest, RefusesByName) {
  EXPECT_THAT(error_of([] { const Autocast half(at::kCPU, at::kHalf); }).message(),
              HasSubstr("not supported: Autocast to float16 on cpu"));
  EXPECT_THAT(error_of([] { const Autocast elsewhere(at::kMeta); }).message(),
              HasSubstr("not supported: Autocast on meta"));
}

}  // namespace
}  // namespace muster::inline v0_1
