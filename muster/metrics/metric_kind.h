// A kind of metric says how long its state is, how two states become one, and how the result is
// read.
// Thread safety: a value that nobody changes once a metric has it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/base/better.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// One row of the table of kinds. A program passes a kind of its own as such an object; it must
// be the same on every replica. Merging is associative, so that batches and replicas may be
// grouped in any way.
struct MetricKind {
  // "mean". What the kind is made with belongs to its name, "confusion_matrix(10)": kinds of one
  // name are the same kind.
  std::string name{};
  // The state that has seen nothing; merging it changes nothing. Its length is that of every state
  // of this kind.
  std::vector<double> empty{};
  // Puts `other` into `state`. Both have the length of `empty`.
  std::function<void(std::span<double> state, std::span<const double> other)> merge{};
  // Reads the number that is shown and compared.
  std::function<double(std::span<const double> state)> result{};
  // What further numbers are called, {"class_0", "class_1"}; none by default. Evaluation and
  // training show them behind the name of the metric, as "precision/class_0".
  std::vector<std::string> part_names = {};
  // Reads these numbers, in the order of their names. Unset where there are none.
  std::function<std::vector<double>(std::span<const double> state)> parts = {};
  // Which values of the result, and of the parts, are better.
  Better better = Better::kUnknown;
  // Reads what has to be known beside the number where it is not what it seems, as an area under
  // the curve of labels that are all 1; empty where there is nothing to say. It holds no numbers
  // that change from one reading to the next, since Metric::result() says each text once. Unset
  // where there never is.
  std::function<std::string(std::span<const double> state)> caution = {};
};

// Gives one of Muster's kinds by name: "accuracy", "mean", "mean_squared_error". These have no
// parameters, and their state is the weighted sum and the sum of weights ("sum" has the former
// alone). It gives nullptr for another name: kinds with parameters, "auc(...)", are made by the
// functions of metrics.h.
MUSTER_EXPORT std::shared_ptr<const MetricKind> find_metric_kind(const std::string& name);
// Gives the names of these kinds: "accuracy", "binary_accuracy" and so on.
MUSTER_EXPORT std::vector<std::string> metric_kind_names();

// Adds the states, for kinds whose state is made of sums and counts.
MUSTER_EXPORT void add_metric_states(std::span<double> state, std::span<const double> other);

}  // namespace muster::inline v0_1
