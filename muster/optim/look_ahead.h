// Look-ahead: slow weights that follow those of another optimizer. Thread safety: a pure function
// of values.
#pragma once

#include <cstdint>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of look_ahead().
struct LookAheadOptions {
  int64_t sync_period = 6;      // updates between two meetings; >= 1
  double slow_step_size = 0.5;  // of the way from the slow weights to the others; in (0, 1]
};
// Gives the same optimizer, which keeps slow weights in a slot "slow". They begin as the weights
// do, and after every `sync_period` updates both meet between them:
//   slow += slow_step_size * (w - slow);  w = slow
// Of a row-sparse variable the rows used in that update meet. Throws InvalidArgument that names the
// field, its value and the range. Source: Zhang et al., 2019; tfa.optimizers.Lookahead.
MUSTER_EXPORT Optimizer look_ahead(Optimizer optimizer, const LookAheadOptions& options = {});

}  // namespace muster::inline v0_1::optim
