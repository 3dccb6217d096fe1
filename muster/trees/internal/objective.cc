#include "muster/trees/internal/objective.h"

#include <algorithm>
#include <cmath>

namespace muster::inline v0_1::trees {
namespace {

float weight_of(const Rows& rows, size_t row) {
  return rows.weights.empty() ? 1.0F : rows.weights[row];
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The probabilities of one row, written to `out`; returns the logarithm of their divisor.
double softmax(const Scores& scores, size_t row, std::vector<double>* out) {
  double largest = scores[0][row], sum = 0;
  for (const auto& of : scores) largest = std::max(largest, of[row]);
  for (size_t k = 0; k < scores.size(); ++k) sum += (*out)[k] = std::exp(scores[k][row] - largest);
  for (double& p : *out) p /= sum;
  return largest + std::log(sum);
}

}  // namespace

std::string_view loss_name(Loss loss) {
  switch (loss) {
    case Loss::kLogistic:
      return "logistic";
    case Loss::kSoftmax:
      return "softmax";
    case Loss::kSquared:
      return "squared";
  }
  return "?";
}

std::vector<Derivatives> derivatives_of(Loss loss, const Rows& rows, const Scores& scores) {
  const auto count = static_cast<size_t>(rows.size());
  std::vector<Derivatives> made(scores.size());
  for (Derivatives& of : made) {
    of.gradients.resize(count);
    of.hessians.resize(count);
  }
  const auto put = [&](size_t k, size_t row, double gradient, double hessian) {
    const float weight = weight_of(rows, row);
    made[k].gradients[row] = weight * static_cast<float>(gradient);
    made[k].hessians[row] = weight * static_cast<float>(hessian);
  };
  std::vector<double> p(scores.size());
  for (size_t row = 0; row < count; ++row) {
    const double label = rows.labels[row];
    if (loss == Loss::kSquared) {
      put(0, row, scores[0][row] - label, 1);
    } else if (loss == Loss::kLogistic) {
      const double probability = sigmoid(scores[0][row]);
      put(0, row, probability - label, probability * (1 - probability));
    } else {
      softmax(scores, row, &p);
      const auto right = static_cast<size_t>(label);
      for (size_t k = 0; k < p.size(); ++k)
        put(k, row, p[k] - (k == right ? 1 : 0), p[k] * (1 - p[k]));
    }
  }
  return made;
}

double loss_sum(Loss loss, const Rows& rows, const Scores& scores) {
  double sum = 0;
  std::vector<double> p(scores.size());
  for (size_t row = 0; row < static_cast<size_t>(rows.size()); ++row) {
    const double label = rows.labels[row], score = scores[0][row];
    double of_row = 0;
    if (loss == Loss::kSquared) {
      of_row = (score - label) * (score - label);
    } else if (loss == Loss::kLogistic) {
      of_row = std::max(score, 0.0) - score * label + std::log1p(std::exp(-std::abs(score)));
    } else {
      of_row = softmax(scores, row, &p) - scores[static_cast<size_t>(label)][row];
    }
    sum += weight_of(rows, row) * of_row;
  }
  return sum;
}

}  // namespace muster::inline v0_1::trees
