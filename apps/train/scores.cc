#include "apps/train/scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Tensor weights_of(const Truth& truth) {
  return truth.weights.defined() ? truth.weights.to(kFloat64)
                                 : torch::ones({truth.labels.size(0)}, kFloat64);
}

double mean_of(const Tensor& values, const Tensor& weights) {
  const double total = weights.sum().item<double>();
  return total > 0 ? (values.to(kFloat64) * weights).sum().item<double>() / total : kNaN;
}

// How often a row of class 1 has the larger score than one of class 0; ties count half.
double area_under_curve(const Tensor& scores, const Tensor& labels, const Tensor& weights) {
  const Tensor order = scores.argsort(/*stable=*/true, 0);
  const Tensor sorted = scores.index_select(0, order).to(kFloat64).contiguous();
  const Tensor label = labels.index_select(0, order).contiguous();
  const Tensor weight = weights.index_select(0, order).contiguous();
  const double* score = sorted.data_ptr<double>();
  const int64_t* is = label.data_ptr<int64_t>();
  const double* counts = weight.data_ptr<double>();
  double below = 0, right = 0, positive = 0;
  for (int64_t begin = 0, end = 0; begin < sorted.numel(); begin = end) {
    double ones = 0, zeros = 0;
    for (end = begin; end < sorted.numel() && score[end] == score[begin]; ++end)
      (is[end] == 1 ? ones : zeros) += counts[end];
    right += ones * (below + zeros / 2);
    below += zeros;
    positive += ones;
  }
  return positive > 0 && below > 0 ? right / (positive * below) : kNaN;
}

double part(double of, double all) { return all > 0 ? of / all : kNaN; }

}  // namespace

Metrics class_metrics(const Tensor& probabilities, const Truth& truth) {
  const Tensor weights = weights_of(truth);
  const Tensor predicted = probabilities.argmax(1);
  const Tensor right = predicted.eq(truth.labels);
  const Tensor own = probabilities.to(kFloat64).gather(1, truth.labels.unsqueeze(1)).squeeze(1);
  constexpr double kLeast = 1e-7;  // a float32 cannot distinguish less from 0
  Metrics metrics{{"accuracy", mean_of(right, weights)},
                  {"log_loss", mean_of(-own.clamp_min(kLeast).log(), weights)}};
  if (probabilities.size(1) != 2) return metrics;
  const auto sum = [&](const Tensor& rows) { return (rows * weights).sum().item<double>(); };
  const Tensor says = predicted.eq(1), is = truth.labels.eq(1);
  metrics["auc"] = area_under_curve(probabilities.select(1, 1), truth.labels, weights);
  metrics["precision"] = part(sum(says & is), sum(says));
  metrics["recall"] = part(sum(says & is), sum(is));
  return metrics;
}

Metrics number_metrics(const Tensor& predictions, const Truth& truth) {
  const Tensor weights = weights_of(truth);
  const Tensor labels = truth.labels.to(kFloat64);
  const Tensor errors = labels - predictions.to(kFloat64);
  const double squared = mean_of(errors.square(), weights);
  const double spread = mean_of((labels - mean_of(labels, weights)).square(), weights);
  return {{"rmse", std::sqrt(squared)},
          {"mae", mean_of(errors.abs(), weights)},
          {"r2", spread > 0 ? 1 - squared / spread : kNaN}};
}

Tensor class_shares(const Tensor& labels, const Tensor& weights, int64_t classes) {
  const Tensor counts = at::bincount(labels, weights_of({labels, weights}), classes).to(kFloat64);
  return counts / counts.sum().clamp_min(1e-300);
}

std::vector<CalibrationBin> calibration(const Tensor& probabilities, const Truth& truth) {
  constexpr int64_t kBins = 10;
  const Tensor p = probabilities.select(1, 1).to(kFloat64);
  const Tensor weights = weights_of(truth);
  const Tensor bin = (p * kBins).floor().clamp(0, kBins - 1).to(kInt64);
  std::vector<CalibrationBin> bins;
  for (int64_t i = 0; i < kBins; ++i) {
    const Tensor rows = bin.eq(i).nonzero().squeeze(1);
    const Tensor own = weights.index_select(0, rows);
    bins.push_back({.from = static_cast<double>(i) / kBins,
                    .to = static_cast<double>(i + 1) / kBins,
                    .rows = rows.numel(),
                    .mean_prediction = mean_of(p.index_select(0, rows), own),
                    .observed = mean_of(truth.labels.eq(1).index_select(0, rows), own)});
  }
  return bins;
}

Tensor confusion(const Tensor& probabilities, const Tensor& labels) {
  const int64_t classes = probabilities.size(1);
  return at::bincount(labels * classes + probabilities.argmax(1), {}, classes * classes)
      .reshape({classes, classes});
}

std::vector<std::pair<double, double>> residual_quantiles(const Tensor& predictions,
                                                          const Tensor& labels) {
  const Tensor sorted =
      std::get<0>((labels.to(kFloat64) - predictions.to(kFloat64)).sort()).contiguous();
  std::vector<std::pair<double, double>> quantiles;
  if (sorted.numel() == 0) return quantiles;
  for (const double q : {0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0}) {
    // Interpolates between two rows by distance.
    const double place = q * static_cast<double>(sorted.numel() - 1);
    const auto low = static_cast<int64_t>(std::floor(place));
    const int64_t high = std::min(low + 1, sorted.numel() - 1);
    const double* values = sorted.data_ptr<double>();
    quantiles.emplace_back(
        q, values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]));
  }
  return quantiles;
}

}  // namespace muster::app
