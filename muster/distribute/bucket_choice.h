// How large the buckets are in which gradients are reduced.
// Thread safety: as an operation of the communicator.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/export.h"
#include "muster/collectives/communicator.h"
#include "muster/plan/buckets.h"

namespace muster::inline v0_1::distribute {

// Buckets of `bytes_per_pack` bytes, where that is given: 0 puts all gradients into one. Otherwise
// measures what an all-reduce costs, and chooses by that for gradients of `bytes`; `tells`: a line
// of the log says what was chosen. All replicas call it together.
MUSTER_PART_EXPORT plan::BucketOptions choose_buckets(Communicator& communicator, int64_t bytes,
                                                      std::optional<int64_t> bytes_per_pack,
                                                      bool tells);

}  // namespace muster::inline v0_1::distribute
