// The numbering of passes over a data set with a repeat() inside of it. Thread safety: pure
// functions.
#pragma once

#include <cstdint>

#include "muster/data/internal/node.h"

namespace muster::inline v0_1::data::internal {

// How many passes of its input a repeat() reads in one pass of its own; this many numbers are kept
// for one without end.
int64_t passes_of(int64_t repeat_count);

// How many pass numbers the tags of one pass over `node` carry: n = 6 for repeat(2).repeat(3). The
// tags of pass p carry numbers in [p * n, p * n + n), so that no two passes share one.
int64_t pass_numbers_of(const Node& node);

// The number in pass `pass` that corresponds to `number` in its own pass.
int64_t number_in_pass(int64_t number, int64_t pass, int64_t numbers_of_a_pass);

}  // namespace muster::inline v0_1::data::internal
