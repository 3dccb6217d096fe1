// Naming an element by its place in the data. Thread safety: a value.
#pragma once

#include <cstdint>
#include <exception>

namespace muster::inline v0_1::data::internal {

// An element before it is read: its index in the source and the pass over the source that gave it.
struct SourceIndex {
  int64_t index = 0;
  int64_t run = 0;
};

// ShuffleStream calls these for everything it keeps: an index takes no additional memory, and
// cannot be an error. (stream_element.h has more to do.)
inline uint64_t hold(SourceIndex&) { return 0; }
inline void become_error(SourceIndex&, std::exception_ptr) {}

}  // namespace muster::inline v0_1::data::internal
