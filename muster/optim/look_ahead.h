// Look-ahead: slow weights that follow those of another optimizer. Thread safety: a pure function
// of values.
#pragma once

#include <cstdint>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of look_ahead().
struct LookAheadOptions {
  int64_t sync_period = 6;      // updates between two synchronizations; >= 1
  double slow_step_size = 0.5;  // how far the slow weights move towards the others; in (0, 1]
};
// Returns the optimizer with slow weights in a slot "slow". They begin as the weights, and after
// every `sync_period` updates both are set to a point between them:
//   slow += slow_step_size * (w - slow);  w = slow
// For a row-sparse variable this applies to the rows used in that update. Throws InvalidArgument
// that names the field, its value and the range. Source: Zhang et al., 2019;
// tfa.optimizers.Lookahead.
MUSTER_EXPORT Optimizer look_ahead(Optimizer optimizer, const LookAheadOptions& options = {});

}  // namespace muster::inline v0_1::optim
