#include "muster/losses/reduction.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

TEST(Reduction, MakesOneNumberOfTheLossesOfABatch) {
  const Tensor each = torch::tensor({1.0, 2.0, 6.0});
  EXPECT_EQ(reduce(each, Reduction::kMean).item<double>(), 3);
  EXPECT_EQ(reduce(each, Reduction::kSum).item<double>(), 9);
  EXPECT_TRUE(reduce(each, Reduction::kNone).is_same(each));
}

TEST(Reduction, ABatchWithoutExamplesAddsNothing) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    const Tensor weight = torch::ones({}).requires_grad_();
    const Tensor loss = reduce(torch::zeros({0}) * weight, reduction);
    EXPECT_EQ(loss.item<float>(), 0);
    loss.backward();
    EXPECT_EQ(weight.grad().item<float>(), 0);
  }
}

TEST(Reduction, IsToldToTheStep) {
  EXPECT_EQ(over_replicas(Reduction::kMean), ReduceOp::kMean);
  EXPECT_EQ(over_replicas(Reduction::kSumOverBatchSize), ReduceOp::kMean);
  EXPECT_EQ(over_replicas(Reduction::kSum), ReduceOp::kSum);
  EXPECT_EQ(message_of([] { over_replicas(Reduction::kNone); }),
            "over_replicas: the reduction is kNone, which leaves a loss for each example");
}

}  // namespace
}  // namespace muster::inline v0_1::losses
