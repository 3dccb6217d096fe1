// The head for one of several classes. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of MultiClassHead().
struct MultiClassHeadOptions {
  int64_t n_classes = 0;         // more than 2; for 2 there is BinaryClassHead()
  WeightColumn weight_column{};  // the feature with the weights of the examples; empty: 1
  // The names that labels are, in the order of the classes. Labels may also be their numbers.
  std::vector<std::string> label_vocabulary{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, V1's
  HeadLossFn loss_fn{};
  std::string name{};  // keys of metrics become "<key>/<name>"
};

// Logits are [batch..., n_classes]; labels [batch...] or [batch..., 1], of an integer dtype, in
// [0, n_classes). The loss is the softmax cross-entropy.
//   metrics: average_loss, accuracy.
//   predictions: logits, probabilities, class_ids [batch..., 1] (of equal ones the first class),
//     all_class_ids [batch, n_classes]. For the names of classes see Head::class_names().
//   export: serving_default and classification, with the names of the classes; predict, all
//     predictions. Logits of more than two axes have predict alone, also as serving_default.
// Throws InvalidArgument for options that are not as said there.
MUSTER_EXPORT Head MultiClassHead(MultiClassHeadOptions options);

}  // namespace muster::inline v0_1
