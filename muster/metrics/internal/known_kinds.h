// Kinds with parameters are made once for as long as a metric has them, and not for every batch.
// Thread safety: may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "muster/metrics/metric_kind.h"

namespace muster::inline v0_1::metrics::internal {

// Returns the existing kind of that name, or else the result of `make`, whose name it sets.
std::shared_ptr<const MetricKind> known_kind(const std::string& name,
                                             const std::function<MetricKind()>& make);

}  // namespace muster::inline v0_1::metrics::internal
