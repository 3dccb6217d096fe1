// Scores of predictions on rows whose labels are known, compared with a model that knows only the
// labels' frequencies, or their mean, and nothing of the features. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::app {

// The labels and weights to measure with. Weights are float32 [rows], or undefined: all 1.
struct Truth {
  Tensor labels;  // int64 classes, or float32 numbers: [rows]
  Tensor weights;
};

// Metrics by name: "accuracy", "log_loss"; for two classes also "auc", "precision" and "recall".
// NaN if one is not defined, such as the auc of a single class. `probabilities`: float32 [rows,
// classes]. The largest one is the prediction; of equal ones the first.
using Metrics = std::map<std::string, double>;
Metrics class_metrics(const Tensor& probabilities, const Truth& truth);
// "rmse", "mae" and "r2", which is against the mean of these labels. `predictions`: [rows].
Metrics number_metrics(const Tensor& predictions, const Truth& truth);

// The shares of the classes, [classes].
Tensor class_shares(const Tensor& labels, const Tensor& weights, int64_t classes);

// Rows whose probability of class 1 is from `from` to below `to`.
struct CalibrationBin {
  double from = 0, to = 0;
  int64_t rows = 0;
  double mean_prediction = 0;  // NaN without rows, and so is
  double observed = 0;         // the part of them that are of class 1
};
// Ten bins of equal width.
std::vector<CalibrationBin> calibration(const Tensor& probabilities, const Truth& truth);

// Rows by their class (the row) and the predicted one (the column): int64 [classes, classes].
Tensor confusion(const Tensor& probabilities, const Tensor& labels);

// Label minus prediction at the quantiles 0, 0.05, 0.25, 0.5, 0.75, 0.95 and 1.
std::vector<std::pair<double, double>> residual_quantiles(const Tensor& predictions,
                                                          const Tensor& labels);

}  // namespace muster::app
