#include "muster/optim/reduce_on_plateau.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/optim/internal/options.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {

std::string ReduceOnPlateauOptions::describe() const {
  return fmt::format(
      "reduce_on_plateau(steps={}, factor={}, patience={}, min_delta={}, cooldown={}, "
      "min_learning_rate={})",
      steps, factor, patience, min_delta, cooldown, min_learning_rate);
}

Plateau next_plateau(const ReduceOnPlateauOptions& options, const Plateau& now, double loss) {
  Plateau next = now;
  next.sum += loss;
  next.count += 1;
  if (next.count < static_cast<double>(options.steps)) return next;
  const double value = next.sum / next.count;
  next.sum = next.count = 0;
  if (next.cooldown > 0) {
    next.cooldown -= 1;
    next.wait = 0;
  }
  if (value < next.best - options.min_delta) {
    next.best = value;
    next.wait = 0;
  } else if (next.cooldown == 0) {
    next.wait += 1;
    if (next.wait >= static_cast<double>(options.patience)) {
      next.factor *= options.factor;
      next.cooldown = static_cast<double>(options.cooldown);
      next.wait = 0;
    }
  }
  return next;
}

double reduced_rate(const ReduceOnPlateauOptions& options, const Plateau& now, double rate) {
  return std::max(rate * now.factor, std::min(rate, options.min_learning_rate));
}

Optimizer reduce_on_plateau(Optimizer optimizer, const ReduceOnPlateauOptions& options) {
  const char* const function = "reduce_on_plateau";
  internal::check_at_least(function, "steps", options.steps, 1);
  if (!(options.factor > 0 && options.factor < 1))
    throw internal::bad_option(function, "factor", options.factor, "above 0 and below 1");
  internal::check_at_least(function, "patience", options.patience, 0);
  internal::check_not_negative(function, "min_delta", options.min_delta);
  internal::check_at_least(function, "cooldown", options.cooldown, 0);
  internal::check_not_negative(function, "min_learning_rate", options.min_learning_rate);
  return optimizer.reduced(options);
}

}  // namespace muster::inline v0_1::optim
