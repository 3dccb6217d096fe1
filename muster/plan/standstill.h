// Time in which a process that watches others stood still itself, as when it, or all of its
// machine, was stopped for a while: the silence of the others in it is not theirs. Thread safety:
// pure functions of what they are given.
#pragma once

#include <algorithm>

namespace muster::inline v0_1::plan {

// Called before each look at the others, all in seconds: how long this process has stood still
// since the look before, which `*last_look` holds and which this one replaces; 0 where it has
// looked again within `longest_gap`.
inline double standstill(double* last_look, double now, double longest_gap) {
  const double gap = now - *last_look;
  *last_look = now;
  return gap > longest_gap ? gap : 0;
}

// A time at which another one was heard of, moved on by what was lost.
inline double moved_on(double heard, double lost, double now) {
  return std::min(now, heard + lost);
}

}  // namespace muster::inline v0_1::plan
