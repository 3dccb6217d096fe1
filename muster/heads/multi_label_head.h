// The head for classes that do not exclude each other. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of MultiLabelHead().
struct MultiLabelHeadOptions {
  int64_t n_classes = 0;             // at least 2
  WeightColumn weight_column{};      // feature with the weights of examples; empty: 1
  std::vector<double> thresholds{};  // in (0, 1); reports accuracy, precision and recall at each
  std::vector<std::string> label_vocabulary{};  // the names of the classes, in their order
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  HeadLossFn loss_fn{};
  // Classes with metrics of their own: numbers or names.
  std::vector<std::variant<int64_t, std::string>> classes_for_class_based_metrics{};
  std::string name{};  // keys of metrics become "<key>/<name>"
};

// Logits are [batch..., n_classes]. Labels have that shape, in [0, 1]: 1 if the example has the
// class. With a label_vocabulary they may be names instead, texts [batch..., most] or [batch],
// where "" means none. The output of a VarLenFeature is also accepted, as a dict of lists and their
// lengths: {"l": [batch, most], "l/row_lengths": int64 [batch]}, of names or of class numbers. The
// loss of an example is the mean over classes of the sigmoid cross-entropy.
//   metrics: average_loss, auc, auc_precision_recall; for each threshold t
//     accuracy/positive_threshold_t, precision/positive_threshold_t, recall/positive_threshold_t;
//     for each class c of classes_for_class_based_metrics probability_mean/class<c>, auc/class<c>,
//     auc_precision_recall/class<c>; with a label_vocabulary its name replaces class<c>.
//   predictions: logits, probabilities. Their last axis is that of Head::classes().
//   export: serving_default and classification, with the names of the classes; predict. Logits of
//     more than two axes have only predict, which is then also serving_default.
// Throws InvalidArgument if an option is outside its documented range.
MUSTER_EXPORT Head MultiLabelHead(MultiLabelHeadOptions options);

}  // namespace muster::inline v0_1
