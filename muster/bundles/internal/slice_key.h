// The key under which a checkpoint of TensorFlow holds a part of a partitioned variable: its name
// and the slice, written so that keys sort like the values they encode ("ordered code"). Thread
// safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::tensorflow::internal {

// The extent of a part along one axis.
struct Extent {
  int64_t start = 0;
  int64_t length = -1;  // -1: all of the axis
};

// The key of the part of `name` that has these extents, one for each axis.
std::string slice_key(std::string_view name, const std::vector<Extent>& extents);

// Whether a key is one of a part, and not the name of a tensor.
inline bool is_slice_key(std::string_view key) { return !key.empty() && key.front() == '\0'; }

}  // namespace muster::inline v0_1::tensorflow::internal
