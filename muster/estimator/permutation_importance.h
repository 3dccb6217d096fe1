// How much a model needs each feature: what a metric loses when the values of the feature are
// shuffled between the rows, so that they say nothing any more (Breiman, "Random forests", 2001).
// It asks the model alone, so it serves any of them. Thread safety: a pure function, but for what
// `evaluate` does.
//
//   const Explanation needed = permutation_importance(
//       [&](const InputFn& input) { return model.evaluate(input); }, eval_input,
//       {.metric = "auc"});
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/estimator/explanation.h"
#include "muster/train/input_fn.h"
#include "muster/train/results.h"

namespace muster::inline v0_1 {

// Options of permutation_importance().
struct PermutationImportanceOptions {
  std::string metric = "loss";
  // Whether the larger metric is the better one. Unset: by its name, of which the part behind a
  // slash is left out. Names with "loss" or "error" in them, "mae", "mse" and "rmse" are better
  // small; "accuracy", "auc", "auc_precision_recall", "precision", "recall" and "r2" large.
  std::optional<bool> larger_is_better{};
  std::vector<std::string> columns{};  // the features to shuffle; empty: all of them
  int64_t repeats = 5;                 // of each, with another order; at least 1
  uint64_t seed = 0;                   // the same one gives the same orders
  // Of each batch, behind the shuffling: feature_column::resolve(columns). Without it an
  // `input_fn` that resolves has its feature columns shuffled, of which one feature may have
  // several ("age", "age_bucketized" and "age_bucketized_X_job").
  Dataset::MapFunction transform{};
};

// Evaluates a model on an input: [&](const InputFn& input) { return model.evaluate(input); }.
using EvaluateFn = std::function<EvalResult(const InputFn& input_fn)>;

// Reads the input once, and keeps it in memory. `evaluate` is called with it as it is, and then
// `repeats` times for each feature. Entries "x/ids", "x/values", "x/weights", "x/lengths" and
// "x/row_lengths" belong to "x" and move together with it; rows of unequal length are padded as
// feature columns have it. The batches are as large as the largest of the input.
//
// A row has "importance", the mean over the repeats of how much worse the metric is, and
// "deviation", its standard deviation over them (0 for one repeat). What the model does not ask has
// exactly 0. Sorted by importance, the largest first.
//
// Throws InvalidArgument for repeats < 1, no `evaluate`, an input without data or whose features
// are no dict, a column it has not (with the nearest name), and a metric that is no number, that
// the evaluation does not give, or of which larger_is_better is not known; and what `evaluate`
// throws.
MUSTER_EXPORT Explanation permutation_importance(const EvaluateFn& evaluate,
                                                 const InputFn& input_fn,
                                                 const PermutationImportanceOptions& options = {});

}  // namespace muster::inline v0_1
