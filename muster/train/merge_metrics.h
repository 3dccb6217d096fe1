// Metrics of all replicas as one. Thread safety: belongs to the replica's thread.
#pragma once

#include <vector>

#include "muster/distribute/exchange.h"
#include "muster/metrics/metric.h"

namespace muster::inline v0_1 {

// Returns each metric with the measurements of all replicas, merged in the order of the replicas.
// They must pass the same kinds of metrics; all call it together. It is one message.
std::vector<Metric> merge_over_replicas(distribute::Exchange& exchange,
                                        const std::vector<Metric>& metrics);

}  // namespace muster::inline v0_1
