// The head for more than two classes, one per example. Thread safety: pure functions.
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
  int64_t n_classes = 0;         // more than 2; for 2 use BinaryClassHead()
  WeightColumn weight_column{};  // feature with the weights of examples; empty: 1
  // The label texts, in the order of the classes. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  HeadLossFn loss_fn{};
  std::string name{};  // keys of metrics become "<key>/<name>"
};

// Logits are [batch..., n_classes]; labels [batch...] or [batch..., 1], of an integer dtype, in
// [0, n_classes). The loss is the softmax cross-entropy.
//   metrics: average_loss, accuracy.
//   predictions: logits, probabilities, class_ids [batch..., 1] (the first of equal ones),
//     all_class_ids [batch, n_classes]. Head::class_names() has the class names.
//   export: serving_default and classification, with the names of the classes; predict, all
//     predictions. Logits of more than two axes have only predict, which is then also
//     serving_default.
// Throws InvalidArgument if an option is outside its documented range.
MUSTER_EXPORT Head MultiClassHead(MultiClassHeadOptions options);

}  // namespace muster::inline v0_1
