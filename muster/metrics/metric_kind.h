// A kind of metric defines the length of its state, how two states are merged, and how the result
// is computed. Thread safety: a value; do not change it after a metric uses it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/base/better.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// A kind of metric. A program may pass its own kind as such an object, which must be the same on
// every replica. Merging is associative, so batches and replicas may be grouped in any way.
struct MetricKind {
  // "mean". Its parameters are part of the name, "confusion_matrix(10)": kinds with the same name
  // are the same kind.
  std::string name{};
  // The state without data; merging it changes nothing. All states of this kind have its length.
  std::vector<double> empty{};
  // Adds `other` to `state`. Both have the length of `empty`.
  std::function<void(std::span<double> state, std::span<const double> other)> merge{};
  // Computes the number that is shown and compared.
  std::function<double(std::span<const double> state)> result{};
  // The names of further numbers, {"class_0", "class_1"}; default: none. Evaluation and training
  // show them after the name of the metric, as "precision/class_0".
  std::vector<std::string> part_names = {};
  // Computes these numbers, in the order of their names. Unset if there are none.
  std::function<std::vector<double>(std::span<const double> state)> parts = {};
  // Whether higher or lower values of the result, and of the parts, are better.
  Better better = Better::kUnknown;
  // Returns a warning if the number may mislead, such as an area under the curve when all labels
  // are 1; empty if there is nothing to say. It must not hold numbers that change from call to
  // call, because Metric::result() logs each text once. Unset if there is never a warning.
  std::function<std::string(std::span<const double> state)> caution = {};
};

// Returns one of Muster's kinds by name: "accuracy", "mean", "mean_squared_error". These have no
// parameters, and their state is the weighted sum and the sum of weights ("sum" has only the
// former). Returns nullptr for another name: functions of metrics.h make the kinds with parameters,
// "auc(...)".
MUSTER_EXPORT std::shared_ptr<const MetricKind> find_metric_kind(const std::string& name);
// Returns the names of these kinds: "accuracy", "binary_accuracy" and so on.
MUSTER_EXPORT std::vector<std::string> metric_kind_names();

// Adds the states, for kinds whose state is made of sums and counts.
MUSTER_EXPORT void add_metric_states(std::span<double> state, std::span<const double> other);

}  // namespace muster::inline v0_1
