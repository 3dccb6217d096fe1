// The offset between the clocks of two tasks, from meetings that both recorded. Thread safety: a
// pure function.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::inline v0_1::internal {

// When a task came to a meeting and left it, in nanoseconds on its own clock. No task leaves before
// all have come.
struct Meeting {
  int64_t came = 0;
  int64_t left = 0;
};

struct ClockOffset {
  int64_t offset = 0;       // nanoseconds: their clock shows `offset` more than the reference
  int64_t uncertainty = 0;  // the true offset is not further than this from `offset`
};

// The offset of `theirs` to `reference`, which recorded the same meetings, at least one. Each
// meeting bounds the offset from both sides: they left after the reference came, and it left after
// they came. The middle is taken, as of a message and its answer (D. L. Mills, RFC 5905, section
// 8); 0 if it lies between the bounds, since tasks of one machine share a clock.
ClockOffset clock_offset(const std::vector<Meeting>& reference, const std::vector<Meeting>& theirs);

}  // namespace muster::inline v0_1::internal
