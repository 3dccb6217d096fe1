// Exponential moving averages of weights, which are often better than the weights of the last step.
// Thread safety: a pure function of values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// The slots of averages have this name: "Adam/average/dense/kernel".
inline constexpr const char* kAverageSlot = "average";

// Options of exponential_moving_average().
struct MovingAverageOptions {
  double decay = 0.99;  // in [0, 1): the part of the old average that each update keeps
  // For this many updates the average is the weight itself; >= 0.
  int64_t start_step = 0;
  // Whether decay begins low, at min(decay, (1 + n) / (10 + n)) with n updates since start_step.
  bool dynamic_decay = false;
  // After every this many updates the averages replace the weights; 0: never; >= 0.
  int64_t overwrite_frequency = 0;
  // Regular expressions; variables whose names contain a match are not averaged: their average is
  // their value.
  std::vector<std::string> exclude{};
};
// Returns the optimizer with an average of each weight it trains. The average begins as the weight,
// and after each update, with w the new weight:
//   average = decay * average + (1 - decay) * w
// `use_ema` of EvaluateOptions, PredictOptions and EvalSpec uses the averages instead of the
// weights. Put it around other wrappers: exponential_moving_average(look_ahead(adam())). For a
// row-sparse variable only the averages of used rows change; those of rare rows lag, so you may
// exclude them. Throws InvalidArgument that names the field, its value and the range.
// Source: tfa.optimizers.MovingAverage (`decay` is its `average_decay`); `ema_momentum` and
// `ema_overwrite_frequency` of the optimizers of Keras 2.11.
MUSTER_EXPORT Optimizer exponential_moving_average(Optimizer optimizer,
                                                   const MovingAverageOptions& options = {});

}  // namespace muster::inline v0_1::optim
