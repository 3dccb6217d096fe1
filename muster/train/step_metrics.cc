#include "muster/train/internal/step_metrics.h"

#include <optional>
#include <vector>

#include "muster/tensor/libtorch.h"

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
  // States are few numbers: all of them travel at once.
  std::vector<double> states;
  for (const auto& [name, metric] : seen_)
    states.insert(states.end(), metric.state().begin(), metric.state().end());
  const std::vector<Tensor> all =
      exchange.gather(torch::tensor(states, at::kDouble).unsqueeze(0), 0);
  size_t begin = 0;
  for (const auto& [name, metric] : seen_) {
    const size_t size = metric.state().size();
    std::optional<Metric> merged;
    for (const Tensor& part : all) {
      const double* first = part.data_ptr<double>() + begin;
      const Metric one = metric.with_state({first, first + size});
      merged ? merged->merge(one) : void(merged = one);
    }
    results_[name] = merged->result();
    begin += size;
  }
  seen_.clear();  // and with it the batches
}

}  // namespace muster::inline v0_1
