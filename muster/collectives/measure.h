// How fast a group of ranks is.
// Thread safety: as an operation of the communicator.
#pragma once

#include "muster/collectives/communicator.h"
#include "muster/plan/communication_cost.h"

namespace muster::inline v0_1 {

// Times some all-reduces, of a few bytes and of up to 4 MB: milliseconds on one host, less than a
// second over a link of 100 Mbit/s. All ranks call it together, and all get rank 0's figures. A
// group of one costs nothing. Throws as the operations do.
plan::CommunicationCost measure_all_reduce(Communicator& group);

}  // namespace muster::inline v0_1
