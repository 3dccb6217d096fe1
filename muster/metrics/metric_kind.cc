#include "muster/metrics/metric_kind.h"

namespace muster::inline v0_1 {
namespace {

// The state is (weighted sum, sum of weights). Nothing seen is 0, as in Keras.
double weighted_mean(std::span<const double> state) {
  return state[1] == 0 ? 0.0 : state[0] / state[1];
}

using Table = std::vector<std::shared_ptr<const MetricKind>>;

const Table& table() {
  static const Table kinds = [] {
    Table made;
    for (MetricKind kind : {
             MetricKind{"accuracy", {0, 0}, add_metric_states, weighted_mean},
             MetricKind{"mean", {0, 0}, add_metric_states, weighted_mean},
         }) {
      made.push_back(std::make_shared<const MetricKind>(std::move(kind)));
    }
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

std::string metric_kind_names() {
  std::string names;
  for (const auto& kind : table()) names += (names.empty() ? "" : ", ") + kind->name;
  return names;
}

void add_metric_states(std::span<double> state, std::span<const double> other) {
  for (size_t i = 0; i < state.size(); ++i) state[i] += other[i];
}

}  // namespace muster::inline v0_1
