// The heads for numbers. Logits are [batch..., label_dimension]; labels have that shape, or lack a
// last axis of 1; there is one weight for each example, or one for each label.
//   metrics: average_loss, prediction/mean, label/mean.
//   predictions: predictions, in the shape of the logits; and logits, if predictions differ.
//   export: serving_default and regression, the predictions; predict. Logits of more than two axes
//     have only predict, which is then also serving_default.
// All throw InvalidArgument if an option is outside its documented range.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of RegressionHead().
struct RegressionHeadOptions {
  int64_t label_dimension = 1;   // at least 1: the numbers of an example
  WeightColumn weight_column{};  // the feature with the weights; empty: 1
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  HeadLossFn loss_fn{};
  // Computes predictions from logits, in their shape. The loss still compares labels with logits,
  // so you usually need a matching loss_fn too.
  std::function<Tensor(const Tensor& logits)> inverse_link_fn{};
  std::string name{};  // keys of metrics become "<key>/<name>"
};

// The loss is the squared error, for each label of an example.
MUSTER_EXPORT Head RegressionHead(RegressionHeadOptions options = {});

// Options of PoissonRegressionHead().
struct PoissonRegressionHeadOptions {
  int64_t label_dimension = 1;  // at least 1
  WeightColumn weight_column{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;
  // Adds y log y - y + log(2 pi y) / 2 for labels y > 1; see log_poisson_loss().
  bool compute_full_loss = true;
  std::string name{};
};

// For counts. Logits x are logarithms of expected counts: predictions are exp(x), and the loss is
// exp(x) - y x.
MUSTER_EXPORT Head PoissonRegressionHead(PoissonRegressionHeadOptions options = {});

// Options of LogisticRegressionHead().
struct LogisticRegressionHeadOptions {
  WeightColumn weight_column{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;
  std::string name{};
};

// For one number in [0, 1]. Predictions are sigmoid(x), and the loss is the sigmoid cross-entropy.
MUSTER_EXPORT Head LogisticRegressionHead(LogisticRegressionHeadOptions options = {});

}  // namespace muster::inline v0_1
