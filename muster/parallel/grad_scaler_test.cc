#include "muster/parallel/grad_scaler.h"

#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <limits>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/parallel/cluster.h"
#include "muster/parallel/loop_checkpoint.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1 {
namespace {

using testing::alone;
using testing::random;
using testing::run_workers;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

torch::nn::Linear make_layer() {
  torch::nn::Linear layer(3, 1);
  torch::NoGradGuard no_grad;
  layer->weight.fill_(0.5);
  layer->bias.zero_();
  return layer;
}

TEST(GradScalerTest, AScaleThatIsAPowerOfTwoChangesNoBit) {
  const auto train = [](bool scaled) {
    torch::nn::Linear layer = make_layer();
    torch::optim::Adam adam(layer->parameters(), 0.1);
    GradScaler scaler(adam);
    for (int step = 0; step < 5; ++step) {
      adam.zero_grad();
      const Tensor loss = layer(random({4, 3}, uint64_t(step))).pow(2).mean();
      if (scaled) {
        scaler.scale(loss).backward();
        EXPECT_TRUE(scaler.step());
      } else {
        loss.backward();
        adam.step();
      }
    }
    return layer->weight.detach().clone();
  };
  EXPECT_TRUE(train(true).equal(train(false)));
}

TEST(GradScalerTest, AllWorkersLeaveOutAStepThatOverflowsOnOne) {
  const TempDirectory directory;
  run_workers(2, [&](Cluster& cluster) {
    torch::nn::Linear plain = make_layer();
    auto net = cluster.data_parallel(plain);
    torch::optim::SGD sgd(plain->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    GradScaler scaler(sgd, {.initial_scale = 1024, .dynamic_growth_steps = 2});
    auto checkpoint = cluster.checkpoint(directory.path());
    checkpoint.add("net", net).add("sgd", sgd).add("scaler", scaler);
    const auto step = [&](double factor) {
      sgd.zero_grad();
      scaler.scale(net(torch::ones({2, 3})).mean() * factor).backward();
      return scaler.step();
    };
    EXPECT_TRUE(step(1));
    const Tensor before = plain->weight.detach().clone();
    EXPECT_FALSE(step(cluster.rank() == 1 ? kInfinite : 1));
    EXPECT_TRUE(plain->weight.equal(before));
    EXPECT_EQ(scaler.scale(), 512);
    EXPECT_TRUE(step(1));
    EXPECT_FALSE(plain->weight.equal(before));
    const Tensor sum = cluster.all_reduce(plain->weight.detach());
    EXPECT_TRUE(sum.equal(plain->weight * 2));
    EXPECT_EQ(scaler.scale(), 512);
    checkpoint.save(3);
    EXPECT_TRUE(step(1));  // the second in a row
    EXPECT_EQ(scaler.scale(), 1024);
    // The checkpoint has one good step in a row.
    EXPECT_EQ(checkpoint.restore(), 3);
    EXPECT_EQ(scaler.scale(), 512);
    EXPECT_TRUE(step(1));
    EXPECT_EQ(scaler.scale(), 1024);
  });
}

TEST(GradScalerTest, GradientsThatWereUnscaledToClipThemAreNotUnscaledTwice) {
  torch::nn::Linear layer = make_layer();
  torch::optim::SGD sgd(layer->parameters(), 1.0);
  GradScaler scaler(sgd);
  scaler.scale(layer(torch::ones({1, 3})).sum()).backward();
  scaler.unscale();
  EXPECT_TRUE(layer->weight.grad().eq(1).all().item<bool>());
  scaler.step();
  EXPECT_TRUE(layer->weight.eq(-0.5).all().item<bool>());
}

TEST(GradScalerTest, EndsWhereTheScaleIsOneAndRefusesOptionsByName) {
  torch::nn::Linear layer = make_layer();
  torch::optim::SGD sgd(layer->parameters(), 1.0);
  GradScaler scaler(sgd, {.initial_scale = 1});
  scaler.scale(layer(torch::ones({1, 3})).sum() * kInfinite).backward();
  EXPECT_EQ(error_of([&] { scaler.step(); }).kind(), ErrorKind::kNonFinite);
  EXPECT_NE(error_of([&] { const GradScaler bad(sgd, {.initial_scale = -1}); })
                .message()
                .find("initial_scale"),
            std::string::npos);
}

}  // namespace
}  // namespace muster::inline v0_1
