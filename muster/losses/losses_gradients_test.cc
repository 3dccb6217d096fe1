// Gradients of every loss, compared with differences of its values.
#include <gtest/gtest.h>

#include "muster/losses/internal/every_loss.h"

namespace muster::inline v0_1::losses {
namespace {

// Compares the gradient of `loss` with central differences, in double precision.
template <typename Loss>
void expect_gradient(const Loss& loss, const Tensor& predictions) {
  Tensor x = predictions.clone().requires_grad_();
  loss(x).backward();
  const Tensor gradient = x.grad().flatten();
  constexpr double kStep = 1e-6;
  for (int64_t i = 0; i < predictions.numel(); ++i) {
    const auto moved = [&](double by) {
      Tensor other = predictions.clone();
      other.view(-1)[i] += by;
      return loss(other).template item<double>();
    };
    const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    EXPECT_NEAR(gradient[i].template item<double>(), slope, 1e-7 * std::max(1.0, std::abs(slope)))
        << "of prediction " << i;
  }
}

TEST(EveryLoss, HasTheGradientOfItsValues) {
  const Tensor weights = torch::tensor({0.5, 3.0}, at::kDouble);
  for (const LossCase& each : every_loss()) {
    for (const auto reduction : {Reduction::kMean, Reduction::kSum}) {
      SCOPED_TRACE(each.name);
      const Tensor y = each.labels_as(at::kDouble);
      expect_gradient([&](const Tensor& p) { return each.loss(y, p, weights, reduction); },
                      each.predictions_as(at::kDouble));
    }
  }
}

TEST(CtcLoss, HasTheGradientOfItsValues) {
  const Tensor predictions =
      (torch::arange(40, at::kDouble) * 12.9898).sin().view({2, 5, 4}).softmax(-1);
  const Tensor labels = torch::tensor({{0, 0, 2}, {1, 0, 0}});
  const Tensor weights = torch::tensor({0.5, 3.0}, at::kDouble);
  for (const bool from_logits : {false, true}) {
    expect_gradient(
        [&](const Tensor& p) {
          return ctc_loss(labels, p, torch::tensor({3, 1}), torch::tensor({5, 4}),
                          {.from_logits = from_logits, .sample_weight = weights});
        },
        predictions);
  }
}

TEST(EveryLoss, GivesGradientsToItsWeights) {
  for (const LossCase& each : every_loss()) {
    SCOPED_TRACE(each.name);
    Tensor weights = torch::tensor({0.5, 3.0}, at::kDouble).requires_grad_();
    each.loss(each.labels_as(at::kDouble), each.predictions_as(at::kDouble), weights,
              Reduction::kSum)
        .backward();
    for (int64_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(weights.grad()[i].item<double>(), each.expected[i],
                  1e-11 * std::max(1.0, std::abs(each.expected[i])));
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::losses
