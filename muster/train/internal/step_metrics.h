// The metrics of one step: of its batches, then over all replicas.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <map>
#include <string>

#include "muster/distribute/exchange.h"
#include "muster/metrics/metric.h"

namespace muster::inline v0_1 {

class StepMetrics {
 public:
  // Forgets the metrics of the last step; call it when a step begins.
  void clear() { seen_.clear(); }
  // Adds the metrics of one batch of the step.
  void add(const std::map<std::string, Metric>& metrics);
  // Makes the results over all replicas, which must have the same names; all call it together.
  void merge(distribute::Exchange& exchange);
  // Adds a number that is the same on all replicas to the results, if no metric has its name.
  void add_result(const std::string& name, double value) { results_.emplace(name, value); }
  // By name, of the step that was merged last.
  const std::map<std::string, double>& results() const { return results_; }

 private:
  std::map<std::string, Metric> seen_;
  std::map<std::string, double> results_;
};

}  // namespace muster::inline v0_1
