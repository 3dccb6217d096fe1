// Measures how much a model needs each feature: how much worse a metric becomes when the values of
// the feature are shuffled between rows, so that they carry no information (Breiman, "Random
// forests", 2001). It only evaluates the model, so it works for any model. Thread safety: a pure
// function, except for what `evaluate` does.
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
  // Whether larger values of the metric are better. Unset: by its name, without the part after a
  // slash. Smaller is better for names with "loss" or "error" in them, "mae", "mse" and "rmse";
  // larger for "accuracy", "auc", "auc_precision_recall", "precision", "recall" and "r2".
  std::optional<bool> larger_is_better{};
  std::vector<std::string> columns{};  // the features to shuffle; empty: all
  int64_t repeats = 5;                 // shuffles per feature; at least 1
  uint64_t seed = 0;                   // the same seed gives the same shuffles
  // Applied to each batch after the shuffle: feature_column::resolve(columns). Without it, if the
  // `input_fn` resolves columns itself, its feature columns are shuffled; one feature may then have
  // several columns ("age", "age_bucketized" and "age_bucketized_X_job").
  Dataset::MapFunction transform{};
};

// Evaluates a model on an input: [&](const InputFn& input) { return model.evaluate(input); }.
using EvaluateFn = std::function<EvalResult(const InputFn& input_fn)>;

// Reads the input once and keeps it in memory. Calls `evaluate` with the unchanged input, then
// `repeats` times for each feature. Entries "x/ids", "x/values", "x/weights", "x/lengths" and
// "x/row_lengths" belong to "x" and are shuffled together with it; rows of unequal length are
// padded as feature columns do. Batches are as large as the largest batch of the input.
//
// Each row has "importance", the mean over the repeats of how much worse the metric is, and
// "deviation", its standard deviation (0 for one repeat). A feature that the model does not use has
// importance exactly 0. Rows are sorted by importance, the largest first.
//
// Throws InvalidArgument for repeats < 1, an empty `evaluate`, an input without data or whose
// features are not a dict, an unknown column (the error suggests the nearest name), and a metric
// that is NaN, that the evaluation does not return, or for which larger_is_better is unknown; and
// the errors of `evaluate`.
MUSTER_EXPORT Explanation permutation_importance(const EvaluateFn& evaluate,
                                                 const InputFn& input_fn,
                                                 const PermutationImportanceOptions& options = {});

}  // namespace muster::inline v0_1
