// How far stages read ahead of the one behind them.
#pragma once

#include <cstdint>

namespace muster::inline v0_1::data::internal {

// What a stage reads ahead at most, in bytes of elements.
inline constexpr uint64_t kMostBytesAhead = uint64_t{1} << 28;

}  // namespace muster::inline v0_1::data::internal
