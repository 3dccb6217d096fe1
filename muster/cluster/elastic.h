// How many workers an elastic run needs, as the launcher of this process says it.
// Thread safety: pure functions.
#pragma once

#include <string_view>

#include "muster/base/environment.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::cluster {

// Returns the least number of workers of a run that the launcher `source` started
// (ResolvedCluster::source): MUSTER_MIN_WORKERS, else for Kubeflow the lower bound of PET_NNODES
// ("1:4"). 0: the run is not elastic. Throws InvalidArgument for a value that is not a number of
// workers.
MUSTER_PART_EXPORT int min_workers(const Environment& environment, std::string_view source);

}  // namespace muster::inline v0_1::cluster
