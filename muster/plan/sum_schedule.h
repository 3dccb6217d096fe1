// How the ranks of a group share the work of summing one buffer: rank j owns chunk j, and chunks
// travel in segments. Thread safety: pure functions. Every rank computes the same plan from the
// same numbers, so nothing is negotiated.
#pragma once

#include <algorithm>
#include <cstdint>

namespace muster::inline v0_1::plan {

// Elements [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// Chunks start at multiples of this many elements, so that no two ranks write to one cache line.
inline constexpr int64_t kChunkAlignment = 16;

// The part of `count` elements that rank `rank` of `ranks` sums. Chunks follow each other in rank
// order, cover all elements and differ in size by less than `ranks` x kChunkAlignment; late ones
// may be empty.
inline Range chunk_of(int64_t count, int ranks, int rank) {
  const int64_t blocks = (count + kChunkAlignment - 1) / kChunkAlignment;
  const int64_t begin = blocks * rank / ranks * kChunkAlignment;
  const int64_t end = blocks * (rank + 1) / ranks * kChunkAlignment;
  return {std::min(begin, count), std::min(end, count)};
}

// How many segments of at most `segment` elements `range` is sent in.
inline int64_t segments_of(Range range, int64_t segment) {
  return (range.size() + segment - 1) / segment;
}

// Segment i of `range`; all but the last have `segment` elements.
inline Range segment_of(Range range, int64_t segment, int64_t i) {
  const int64_t begin = range.begin + i * segment;
  return {begin, std::min(begin + segment, range.end)};
}

}  // namespace muster::inline v0_1::plan
