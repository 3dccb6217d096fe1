// Notes what a replica does, and from when to when, for a profile.
// Thread safety: belongs to the replica's thread.
//
// Code that records spans keeps a pointer to a recorder, nullptr while nothing is recorded:
// then a step costs a comparison for each place, and no look at a clock.
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
  // Where spans stand; those of one lane hold each other or do not overlap.
  enum Lane : int {
    kSteps,       // the steps, and in them what the replica's thread does
    kReductions,  // the buckets, one after another
    kLanes
  };
  // Numbers that are shown with a span, by name.
  using Args = std::vector<std::pair<std::string, int64_t>>;

  // Keeps so many spans, and of more only how many they were.
  explicit SpanRecorder(size_t most = 16384) : most_(most) {}

  // Notes what was done from `begin` to `end`.
  void add(Lane lane, std::string_view name, TimePoint begin, TimePoint end, Args args = {});

  // `track` of a span is its lane, and times are those of the system's steady clock.
  struct Recorded {
    std::vector<formats::TimelineSpan> spans{};
    int64_t left_out = 0;  // for want of room
  };
  // Gives what was noted since the last call.
  Recorded take() { return std::exchange(recorded_, {}); }

 private:
  const size_t most_;
  Recorded recorded_;
};

}  // namespace muster::inline v0_1::distribute
