// Profiles of TensorFlow and JAX: plugins/profile/TIME/HOST.xplane.pb, a message XSpace. Thread
// safety: a pure function.
//
// Source of the format: tsl/profiler/protobuf/xplane.proto.
#pragma once

#include <cstddef>

#include "muster/base/bytes.h"
#include "muster/formats/timeline.h"

namespace muster::inline v0_1::board {

// The lines of all planes as tracks, with their events that have a duration. Throws Corrupt for
// other bytes, and InvalidArgument for more than `most` events.
formats::Timeline timeline_of_xspace(Bytes bytes, size_t most = 500'000);

}  // namespace muster::inline v0_1::board
