#include "muster/train/merge_metrics.h"

#include <cstddef>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

std::vector<Metric> merge_over_replicas(distribute::Exchange& exchange,
                                        const std::vector<Metric>& metrics) {
  std::vector<double> states;
  for (const Metric& metric : metrics)
    states.insert(states.end(), metric.state().begin(), metric.state().end());
  std::vector<Metric> merged;
  for (const Tensor& part : exchange.gather(torch::tensor(states, at::kDouble).unsqueeze(0), 0)) {
    const bool first = merged.empty();
    const double* begin = part.data_ptr<double>();
    for (size_t m = 0; m < metrics.size(); ++m) {
      const double* end = begin + metrics[m].state().size();
      const Metric one = metrics[m].with_state({begin, end});
      first ? merged.push_back(one) : merged[m].merge(one);
      begin = end;
    }
  }
  return merged;
}

}  // namespace muster::inline v0_1
