#include "muster/parallel/internal/weight_sample.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "muster/tensor/libtorch.h"
#include "tests/support/cluster_workers.h"

namespace muster::inline v0_1::internal {
namespace {

using testing::random;

int64_t code_of(const Tensor& weight, int64_t number = 0) {
  return sample_weights({{"weight", weight}}, number).code;
}

bool are_one(const Tensor& one, const Tensor& other) {
  return std::abs(code_of(one) - code_of(other)) <= WeightSample::kTolerance;
}

TEST(WeightSampleTest, RoundingIsNoDifferenceAndAnUpdateIs) {
  for (const DType dtype : {kFloat32, kFloat64}) {
    const Tensor weight = (random({8, 16}, 1) * 0.1).to(dtype);
    EXPECT_EQ(code_of(weight), code_of(weight.clone()));
    const Tensor noise = random({8, 16}, 2).to(dtype);
    // A last bit of float32, thirty times.
    EXPECT_TRUE(are_one(weight, weight * (1 + noise * 30 * std::ldexp(1, -24))));
    EXPECT_FALSE(are_one(weight, weight - 1e-3 * noise));
  }
  // A bias that begins at 0, and that rounding makes something else.
  EXPECT_TRUE(are_one(torch::full({4}, 1e-9), torch::full({4}, -3e-9)));
  EXPECT_FALSE(are_one(torch::zeros({4}), torch::full({4}, 1e-4)));
  const Tensor bad = torch::full({4}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(code_of(bad), code_of(bad));
  EXPECT_FALSE(are_one(bad, torch::ones({4})));
}

TEST(WeightSampleTest, LooksAtAllNumbersOfAllWeightsInTurn) {
  const Tensor image = random({3, 5, 4, 4}, 1).contiguous(at::MemoryFormat::ChannelsLast);
  for (const Tensor& weight : {random({300}, 1), image}) {
    const int64_t blocks = (weight.numel() + 63) / 64;
    for (int64_t i = 0; i < weight.numel(); i += 7) {
      const Tensor other = weight.clone();
      other.as_strided({other.numel()}, {1})[i] += 1;
      bool seen = false;
      for (int64_t number = 0; number < 2 * blocks; number += 2) {
        const auto of = [&](const Tensor& mine) {
          return sample_weights({{"mine", mine}, {"other", torch::ones({2})}}, number).code;
        };
        seen |= of(weight) != of(other);
      }
      EXPECT_TRUE(seen) << i;
    }
  }
  EXPECT_EQ(sample_weights({{"a", torch::ones({2})}, {"b", torch::ones({2})}}, 5).name, "b");
  EXPECT_EQ(code_of(torch::ones({2, 4}).slice(1, 0, 2)), 0) << "memory with gaps";
  EXPECT_EQ(code_of(torch::ones({0})), 0);
}

}  // namespace
}  // namespace muster::inline v0_1::internal
