#include "muster/train/internal/step_metrics.h"

#include <vector>

#include "muster/train/merge_metrics.h"

namespace muster::inline v0_1 {

void StepMetrics::add(const std::map<std::string, Metric>& metrics) {
  for (const auto& [name, metric] : metrics) {
    const auto [known, added] = seen_.emplace(name, metric);
    if (!added) known->second.merge(metric);
  }
}

void StepMetrics::merge(distribute::Exchange& exchange) {
  results_.clear();
  if (seen_.empty()) return;
  std::vector<Metric> metrics;
  for (const auto& [name, metric] : seen_) metrics.push_back(metric);
  const std::vector<Metric> merged = merge_over_replicas(exchange, metrics);
  auto next = merged.begin();
  for (const auto& [name, metric] : seen_) {
    const Metric& all = *next++;
    results_[name] = all.result_so_far();
    const std::vector<double> parts = all.parts();
    for (size_t p = 0; p < parts.size(); ++p)
      results_[name + "/" + all.definition()->part_names[p]] = parts[p];
  }
  seen_.clear();  // and with it the batches
}

}  // namespace muster::inline v0_1
