#include "muster/metrics/metric_kind.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace muster::inline v0_1 {
namespace {

// The state is (weighted sum, sum of weights). Nothing seen is 0, as in Keras.
double weighted_mean(std::span<const double> state) {
  return state[1] == 0 ? 0.0 : state[0] / state[1];
}

double root_of_weighted_mean(std::span<const double> state) {
  return std::sqrt(weighted_mean(state));
}

// For labels 0 and 1: how often the more frequent one is right.
double larger_share(std::span<const double> state) {
  // Nothing measured is 0, as of other means.
  return state[1] == 0 ? 0 : std::max(weighted_mean(state), 1 - weighted_mean(state));
}

std::string nothing_seen(std::span<const double> state) {
  return state[1] == 0
             ? "no example has a weight above 0, so nothing was measured: the number has no meaning"
             : "";
}

double first_number(std::span<const double> state) { return state[0]; }

using Table = std::vector<std::shared_ptr<const MetricKind>>;

// The names of the kinds whose result is a weighted mean of their function's values.
constexpr const char* kMeans[] = {
    "accuracy",
    "binary_accuracy",
    "binary_crossentropy",
    "categorical_accuracy",
    "categorical_crossentropy",
    "categorical_hinge",
    "cosine_similarity",
    "hinge",
    "kl_divergence",
    "log_cosh",
    "mean",
    "mean_absolute_error",
    "mean_absolute_percentage_error",
    "mean_relative_error",
    "mean_squared_error",
    "mean_squared_logarithmic_error",
    "poisson",
    "sparse_categorical_accuracy",
    "sparse_categorical_crossentropy",
    "sparse_top_k_categorical_accuracy",
    "squared_hinge",
    "top_k_categorical_accuracy",
};

const Table& table() {
  static const Table kinds = [] {
    Table made;
    const auto add = [&](MetricKind kind) {
      made.push_back(std::make_shared<const MetricKind>(std::move(kind)));
    };
    const auto add_mean = [&](const char* name, auto result) {
      MetricKind kind{name, {0, 0}, add_metric_states, result};
      kind.better = better_by_name(name);
      kind.caution = nothing_seen;
      add(std::move(kind));
    };
    for (const char* name : kMeans) add_mean(name, weighted_mean);
    add_mean("accuracy_baseline", larger_share);
    add_mean("root_mean_squared_error", root_of_weighted_mean);
    add({"sum", {0}, add_metric_states, first_number});
    return made;
  }();
  return kinds;
}

}  // namespace

std::shared_ptr<const MetricKind> find_metric_kind(const std::string& name) {
  for (const auto& kind : table()) {
    if (kind->name == name) return kind;
  }
  return nullptr;
}

std::vector<std::string> metric_kind_names() {
  std::vector<std::string> names;
  for (const auto& kind : table()) names.push_back(kind->name);
  return names;
}

void add_metric_states(std::span<double> state, std::span<const double> other) {
  for (size_t i = 0; i < state.size(); ++i) state[i] += other[i];
}

}  // namespace muster::inline v0_1
