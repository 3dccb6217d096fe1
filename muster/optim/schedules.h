// Learning rates that change during training. Each is a function of the step (see learning_rate.h).
// Use it as the learning rate of an optimizer:
//   optim::adam({.learning_rate = optim::exponential_decay({.initial_learning_rate = 0.1,
//                                                           .decay_steps = 1000,
//                                                           .decay_rate = 0.96})})
// Names, defaults and formulas are those of tf.keras.optimizers.schedules, except the warm-ups,
// which precede any other schedule, and one_cycle, which is PyTorch's OneCycleLR.
// Thread safety: pure functions of values.
//
// Each throws InvalidArgument that names the schedule, the field, its value and the range. Learning
// rates are finite and at least 0; numbers of steps are 1 or more. You must set the first or
// largest rate and the numbers of steps: a schedule without them would train nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/base/export.h"
#include "muster/optim/learning_rate.h"

namespace muster::inline v0_1::optim {

// Options of piecewise_constant_decay().
struct PiecewiseConstantDecayOptions {
  std::vector<int64_t> boundaries{};  // rising steps: values[i] applies up to boundaries[i]
  std::vector<double> values{};       // one more than boundaries
};
// values[0] up to and including step boundaries[0], then values[1], and so on.
MUSTER_EXPORT LearningRate piecewise_constant_decay(const PiecewiseConstantDecayOptions& options);

// Options of exponential_decay().
struct ExponentialDecayOptions {
  double initial_learning_rate = kNotGiven;
  int64_t decay_steps = 0;
  double decay_rate = 0;   // > 0
  bool staircase = false;  // uses only whole powers
};
// initial_learning_rate * decay_rate^(step / decay_steps)
MUSTER_EXPORT LearningRate exponential_decay(const ExponentialDecayOptions& options);

// Options of inverse_time_decay().
struct InverseTimeDecayOptions {
  double initial_learning_rate = kNotGiven;
  int64_t decay_steps = 0;
  double decay_rate = 0;   // >= 0
  bool staircase = false;  // step / decay_steps is rounded down
};
// initial_learning_rate / (1 + decay_rate * step / decay_steps)
MUSTER_EXPORT LearningRate inverse_time_decay(const InverseTimeDecayOptions& options);

// Options of polynomial_decay().
struct PolynomialDecayOptions {
  double initial_learning_rate = kNotGiven;
  int64_t decay_steps = 0;
  double end_learning_rate = 0.0001;
  double power = 1.0;  // >= 0
  bool cycle = false;  // after decay_steps it rises again, and falls until a multiple of
                       // decay_steps
};
// With s = min(step, decay_steps):
//   (initial_learning_rate - end_learning_rate) * (1 - s / decay_steps)^power + end_learning_rate
// `cycle`: decay_steps is multiplied by the smallest whole number that reaches the step, and s is
// the step.
MUSTER_EXPORT LearningRate polynomial_decay(const PolynomialDecayOptions& options);

// Options of cosine_decay().
struct CosineDecayOptions {
  double initial_learning_rate = kNotGiven;
  int64_t decay_steps = 0;
  double alpha = 0.0;  // >= 0; the last rate divided by the first
};
// With s = min(step, decay_steps):
//   initial_learning_rate * ((1 - alpha) * (1 + cos(pi * s / decay_steps)) / 2 + alpha)
MUSTER_EXPORT LearningRate cosine_decay(const CosineDecayOptions& options);

// Options of cosine_decay_restarts().
struct CosineDecayRestartsOptions {
  double initial_learning_rate = kNotGiven;
  int64_t first_decay_steps = 0;
  double t_mul = 2.0;  // >= 1; the length of each period divided by that of the period before
  double m_mul = 1.0;  // >= 0; and the same for their first rates
  double alpha = 0.0;  // >= 0; the smallest rate divided by the first
};
// cosine_decay() with restarts (SGDR, Loshchilov and Hutter).
MUSTER_EXPORT LearningRate cosine_decay_restarts(const CosineDecayRestartsOptions& options);

// Options of linear_warmup() and cosine_warmup().
struct WarmupOptions {
  int64_t warmup_steps = 0;
  double start_learning_rate = 0.0;
  LearningRate then = 0.001;  // a number or any schedule, whose step 0 is step warmup_steps
};
// Rises from start_learning_rate to the first rate of `then` in warmup_steps steps, linearly or
// along half a cosine; then it is `then`. cosine_decay() after a linear warm-up is Keras's
// CosineDecay with warmup_target.
MUSTER_EXPORT LearningRate linear_warmup(const WarmupOptions& options);
MUSTER_EXPORT LearningRate cosine_warmup(const WarmupOptions& options);

// Along half a cosine, or linearly.
enum class AnnealStrategy { kCosine, kLinear };
// Options of one_cycle().
struct OneCycleOptions {
  double max_learning_rate = kNotGiven;
  int64_t total_steps = 0;  // >= 2
  double pct_start = 0.3;   // in [0, 1]; the fraction of the steps in which it rises
  AnnealStrategy anneal_strategy = AnnealStrategy::kCosine;
  double div_factor = 25.0;       // > 0; the first rate is max_learning_rate / div_factor
  double final_div_factor = 1e4;  // > 0; the last rate is the first rate / final_div_factor
  bool three_phase = false;       // it falls as it rose, and then to the end
};
// Smith and Topin's policy as in torch.optim.lr_scheduler.OneCycleLR, without its cycle of
// momentum. After total_steps the rate stays at the last value, where PyTorch throws.
MUSTER_EXPORT LearningRate one_cycle(const OneCycleOptions& options);

}  // namespace muster::inline v0_1::optim
