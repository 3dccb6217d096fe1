// F-scores: precision and recall of each class, combined into one number.
// Thread safety: pure functions.
#pragma once

#include <optional>

#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::metrics {

// How scores of classes become one. kNone: the parts are the scores, "class_0", and the result is
// their mean. kMicro counts over all classes, kMacro is the mean, and kWeighted the mean weighted
// by the number of labels of each class.
enum class Average { kNone, kMicro, kMacro, kWeighted };

// Options of f_beta_score().
struct FBetaScoreOptions {
  Average average = Average::kNone;
  double beta = 1;  // above 0: recall has beta times the weight of precision
  // In (0, 1]: predictions above it are positive. Unset: the largest prediction of each example is.
  std::optional<double> threshold{};
};

// Measures (1 + beta^2) precision recall / (beta^2 precision + recall), and 0 for 0 / 0. Labels, in
// [0, 1], and predictions are [batch..., classes]; [batch] is one class. Weights are as in
// metrics.h. Throws InvalidArgument with both shapes when they do not fit, if an option is outside
// its documented range, and, when it is computed, for labels outside of [0, 1].
MUSTER_EXPORT Metric f_beta_score(const Tensor& labels, const Tensor& predictions,
                                  const Tensor& weights = {},
                                  const FBetaScoreOptions& options = {});

// Options of f1_score().
struct F1ScoreOptions {
  Average average = Average::kNone;
  std::optional<double> threshold{};  // as in FBetaScoreOptions
};

// Measures f_beta_score() with a beta of 1.
MUSTER_EXPORT Metric f1_score(const Tensor& labels, const Tensor& predictions,
                              const Tensor& weights = {}, const F1ScoreOptions& options = {});

}  // namespace muster::inline v0_1::metrics
