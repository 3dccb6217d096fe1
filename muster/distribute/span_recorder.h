// Records the activities of a replica, and their times, for a profile. Thread safety: belongs to
// the replica's thread.
//
// Code that records keeps a pointer to a recorder, nullptr while nothing is recorded: then a step
// costs a comparison for each place, and no look at a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/formats/timeline.h"

namespace muster::inline v0_1::distribute {

class SpanRecorder {
 public:
  // The lanes of spans; spans of one lane nest or do not overlap.
  enum Lane : int {
    kSteps,       // the steps, and in them the activities of the replica's thread
    kReductions,  // the buckets, one after another
    kLanes
  };
  // Numbers that are shown with a span, by name.
  using Args = std::vector<std::pair<std::string, int64_t>>;

  // Keeps this many spans, and counts the others.
  explicit SpanRecorder(size_t most = 16384) : most_(most) {}

  // Notes an activity from `begin` to `end`.
  void add(Lane lane, std::string_view name, TimePoint begin, TimePoint end, Args args = {});

  // `track` of a span is its lane, and times are from the system's steady clock.
  struct Recorded {
    std::vector<formats::TimelineSpan> spans{};
    int64_t left_out = 0;  // for lack of space
  };
  // Returns the spans since the last call.
  Recorded take() { return std::exchange(recorded_, {}); }

 private:
  const size_t most_;
  Recorded recorded_;
};

}  // namespace muster::inline v0_1::distribute
