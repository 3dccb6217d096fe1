#include "muster/optim/loss_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/optim/internal/options.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {
constexpr double kFactor = 2;
}  // namespace

std::string LossScalingOptions::describe() const {
  if (!dynamic) return fmt::format("loss_scaling({})", initial_scale);
  return fmt::format("loss_scaling({}, dynamic_growth_steps={})", initial_scale,
                     dynamic_growth_steps);
}

LossScale next_loss_scale(const LossScalingOptions& options, const LossScale& now, bool finite) {
  if (!finite) return {std::max(now.scale / kFactor, 1.0), 0};
  if (now.good_steps + 1 < options.dynamic_growth_steps) return {now.scale, now.good_steps + 1};
  const double grown = now.scale * kFactor;
  return {grown <= std::numeric_limits<float>::max() ? grown : now.scale, 0};
}

Optimizer loss_scaling(Optimizer optimizer, const LossScalingOptions& options) {
  const char* const function = "loss_scaling";
  internal::check_positive(function, "initial_scale", options.initial_scale);
  if (options.dynamic && options.initial_scale < 1) {
    throw internal::bad_option(function, "initial_scale", options.initial_scale,
                               "at least 1 when it is dynamic");
  }
  internal::check_at_least(function, "dynamic_growth_steps", options.dynamic_growth_steps, 1);
  return optimizer.scaled(options);
}

}  // namespace muster::inline v0_1::optim
