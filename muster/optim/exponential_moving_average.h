// Exponential moving averages of weights: often better weights than those of the last step.
// Thread safety: a pure function of values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// How the slots that hold averages are called: "Adam/average/dense/kernel".
inline constexpr const char* kAverageSlot = "average";

// Options of exponential_moving_average().
struct MovingAverageOptions {
  double decay = 0.99;  // in [0, 1): the part of the average that stays in each update
  // Before so many updates the average is the weight itself; >= 0.
  int64_t start_step = 0;
  // Whether decay begins low, at min(decay, (1 + n) / (10 + n)) with n updates since start_step.
  bool dynamic_decay = false;
  // After every so many updates the weights become their averages; 0: never; >= 0.
  int64_t overwrite_frequency = 0;
  // Regular expressions; the average of a variable in whose name one is found is its value.
  std::vector<std::string> exclude{};
};
// Gives the same optimizer, which keeps an average of each weight it trains. It begins as the
// weight does, and after each update, with w the new weight:
//   average = decay * average + (1 - decay) * w
// EvaluateOptions, PredictOptions and EvalSpec have `use_ema`, which puts averages in the place of
// weights. It belongs around the others: exponential_moving_average(look_ahead(adam())). Of a
// row-sparse variable the averages of the rows used change: those of rare rows lag behind, and may
// be excluded. Throws InvalidArgument that names the field, its value and the range.
// Source: tfa.optimizers.MovingAverage (`decay` is its `average_decay`); `ema_momentum` and
// `ema_overwrite_frequency` of the optimizers of Keras 2.11.
MUSTER_EXPORT Optimizer exponential_moving_average(Optimizer optimizer,
                                                   const MovingAverageOptions& options = {});

}  // namespace muster::inline v0_1::optim
