#include "muster/optim/clip.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error_of.h"
#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

StepGradients step_of(std::vector<Tensor> gradients, double scale) {
  StepGradients step{.optimizer = "Adam", .scale = scale};
  for (Tensor& gradient : gradients) step.items.push_back({.gradient = std::move(gradient)});
  return step;
}

TEST(ClipByGlobalNorm, BringsTheNormOfAllGradientsToTheBound) {
  const Optimizer optimizer = clip_by_global_norm(adam(), 2);
  const Tensor three = torch::tensor({3.0f}), four = torch::tensor({{0.0f, 4.0f}});
  StepGradients step = step_of({three, four}, 0.5);
  optimizer.transform(step);
  // The norm is sqrt(9 + 16) / 2.
  EXPECT_EQ(step.scale, 0.5 * (2 / 2.5));
  EXPECT_EQ(three.item<float>(), 3) << "the gradients themselves stay as they are";
  step = step_of({three, four}, 0.25);
  optimizer.transform(step);
  EXPECT_EQ(step.scale, 0.25) << "short enough";
  step = step_of({}, 0.25);
  optimizer.transform(step);
  EXPECT_EQ(step.scale, 0.25);
}

TEST(ClipByGlobalNorm, ANormThatIsNotFiniteEndsTheRun) {
  StepGradients step = step_of({torch::tensor({1.0f, std::nanf("")})}, 1);
  const Error error = error_of([&] { clip_by_global_norm(adam(), 1).transform(step); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(error.message(), "the global norm of the gradients of optimizer Adam is nan");
}

TEST(ClipByGlobalNorm, RefusesABoundThatIsNone) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), infinity}) {
    EXPECT_NE(message_of([&] { clip_by_global_norm(sgd(), bad); }).find("max_norm must be"),
              std::string::npos);
  }
}

TEST(Clipping, OfAKindStandsAroundAnOptimizerOnce) {
  EXPECT_EQ(message_of([] { clip_by_global_norm(clip_by_global_norm(adam(), 1), 2); }),
            "clip_by_global_norm: the optimizer Adam has clip_by_global_norm(1) already | use "
            "clip_by_global_norm at most once on an optimizer");
  EXPECT_EQ(message_of([] {
              clip_by_norm(clip_by_norm(adam(), 1), 1);
            }).find("clip_by_norm: the optimizer Adam has clip_by_norm(1) already"),
            0u);
  EXPECT_EQ(message_of([] {
              clip_by_value(clip_by_value(adam(), 1), 1);
            }).find("clip_by_value: the optimizer Adam has clip_by_value(1) already"),
            0u);
  EXPECT_EQ(
      clip_by_norm(clip_by_global_norm(clip_by_value(adam(), 1), 2), 3).transformations().size(),
      3u)
      << "those of several kinds compose";
}

}  // namespace
}  // namespace muster::inline v0_1::optim
