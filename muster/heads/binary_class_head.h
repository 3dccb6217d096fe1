// The head for two classes. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/weight_column.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of BinaryClassHead().
struct BinaryClassHeadOptions {
  WeightColumn weight_column{};      // feature with the weights of examples; empty: 1
  std::vector<double> thresholds{};  // in (0, 1); reports accuracy, precision and recall at each
  // The label texts of class 0 and class 1. Labels may also be class numbers.
  std::vector<std::string> label_vocabulary{};
  losses::Reduction loss_reduction = losses::Reduction::kSumOverBatchSize;  // or kSum, as in V1
  HeadLossFn loss_fn{};
  std::string name{};  // keys of metrics become "<key>/<name>"
};

// One logit for each example, [batch..., 1]; larger means class 1. Labels are [batch...] or
// [batch..., 1], in [0, 1]; values between are probabilities. The loss is the sigmoid
// cross-entropy.
//   metrics: average_loss, accuracy, precision, recall, prediction/mean, label/mean,
//     accuracy_baseline, auc, auc_precision_recall; for each threshold t
//     accuracy/positive_threshold_t, precision/positive_threshold_t, recall/positive_threshold_t.
//   predictions: logits, logistic [batch..., 1], probabilities [batch..., 2], class_ids
//     [batch..., 1] (a logit of 0 is class 0), all_class_ids [batch, 2]; the ids are int64.
//     Head::class_names() has the class names.
//   export: serving_default and classification, with the names of the classes; regression, the
//     probability of class 1; predict, all predictions. Logits of more than two axes have only
//     predict, which is then also serving_default.
// Throws InvalidArgument if an option is outside its documented range.
MUSTER_EXPORT Head BinaryClassHead(BinaryClassHeadOptions options = {});

}  // namespace muster::inline v0_1
