// How far stages read ahead of the next stage.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::data::internal {

// The most bytes of elements that a stage reads ahead.
inline constexpr uint64_t kMostBytesAhead = uint64_t{1} << 28;

}  // namespace muster::inline v0_1::data::internal
