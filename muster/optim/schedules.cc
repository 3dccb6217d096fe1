#include "muster/optim/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "muster/optim/internal/options.h"

namespace muster::inline v0_1::optim {
namespace {

using internal::bad_option;
using internal::check_not_negative;
using internal::check_positive;

void check_steps(const char* schedule, const char* field, int64_t value, int64_t least = 1) {
  if (value < least) {
    throw invalid_argument(fmt::format("{}: {} is {}", schedule, field, value),
                           fmt::format("{} must be {} or more", field, least));
  }
}

// The rate that a schedule is made of has no default.
void check_rate(const char* schedule, const char* field, double value) {
  if (std::isnan(value)) {
    throw invalid_argument(fmt::format("{}: {} is not given", schedule, field),
                           fmt::format("say the rate: {}({{.{} = 0.001, ...}})", schedule, field));
  }
  check_not_negative(schedule, field, value);
}

// From 1 down to 0 along half a cosine, while `part` runs from 0 to 1.
double half_cosine(double part) { return 0.5 * (1 + std::cos(std::numbers::pi * part)); }

double periods(int64_t step, int64_t decay_steps, bool staircase) {
  const double count = static_cast<double>(step) / static_cast<double>(decay_steps);
  return staircase ? std::floor(count) : count;
}

double polynomial(const PolynomialDecayOptions& options, int64_t step) {
  double length = static_cast<double>(options.decay_steps);
  double at = static_cast<double>(step);
  if (options.cycle) {
    length *= std::max(1.0, std::ceil(at / length));
  } else {
    at = std::min(at, length);
  }
  return (options.initial_learning_rate - options.end_learning_rate) *
             std::pow(1 - at / length, options.power) +
         options.end_learning_rate;
}

// The step is in period `i`, which begins after `start` lengths of the first one.
double restarts(const CosineDecayRestartsOptions& options, int64_t step) {
  const double lengths = static_cast<double>(step) / static_cast<double>(options.first_decay_steps);
  double i, start, length = 1;
  if (options.t_mul == 1) {
    i = start = std::floor(lengths);
  } else {
    const auto start_of = [&](double period) {
      return (std::pow(options.t_mul, period) - 1) / (options.t_mul - 1);
    };
    i = std::floor(std::log1p(lengths * (options.t_mul - 1)) / std::log(options.t_mul));
    // The logarithm is rounded; at the first step of a period that must not show.
    if (start_of(i) > lengths) --i;
    if (start_of(i + 1) <= lengths) ++i;
    start = start_of(i);
    length = std::pow(options.t_mul, i);
  }
  const double cosine = std::pow(options.m_mul, i) * half_cosine((lengths - start) / length);
  return options.initial_learning_rate * ((1 - options.alpha) * cosine + options.alpha);
}

double one_cycle_at(const OneCycleOptions& options, int64_t step) {
  const double initial = options.max_learning_rate / options.div_factor;
  const double last = initial / options.final_div_factor;
  const double total = static_cast<double>(options.total_steps);
  struct Phase {
    double end, from, to;
  };
  const double top = options.pct_start * total - 1;
  std::vector<Phase> phases{{top, initial, options.max_learning_rate}};
  if (options.three_phase)
    phases.push_back({2 * options.pct_start * total - 2, options.max_learning_rate, initial});
  phases.push_back({total - 1, phases.back().to, last});
  const double at = std::min(static_cast<double>(step), total - 1);
  double begin = 0;
  for (const Phase& phase : phases) {
    if (at <= phase.end) {
      const double part = phase.end > begin ? (at - begin) / (phase.end - begin) : 1.0;
      if (options.anneal_strategy == AnnealStrategy::kLinear)
        return phase.from + (phase.to - phase.from) * part;
      return phase.to + (phase.from - phase.to) * half_cosine(part);
    }
    begin = phase.end;
  }
  return last;
}

// The part of the initial rate that is left after this many periods. These schedules have the same
// options.
template <typename Options>
LearningRate decay(const char* schedule, const char* shown, const Options& options,
                   double (*left)(double initial, double rate, double periods)) {
  check_rate(schedule, "initial_learning_rate", options.initial_learning_rate);
  check_steps(schedule, "decay_steps", options.decay_steps);
  return {fmt::format("{}(initial_learning_rate={}, decay_steps={}, decay_rate={}, staircase={})",
                      shown, options.initial_learning_rate, options.decay_steps, options.decay_rate,
                      options.staircase),
          [options, left](int64_t step) {
            return left(options.initial_learning_rate, options.decay_rate,
                        periods(step, options.decay_steps, options.staircase));
          }};
}

LearningRate warmup(const char* schedule, const char* shown, const WarmupOptions& options,
                    double (*part_of)(double)) {
  check_steps(schedule, "warmup_steps", options.warmup_steps);
  check_not_negative(schedule, "start_learning_rate", options.start_learning_rate);
  if (options.then.is_constant()) check_not_negative(schedule, "then", options.then.at(0));
  return {fmt::format("{}(warmup_steps={}, start_learning_rate={}, then={})", shown,
                      options.warmup_steps, options.start_learning_rate, options.then.describe()),
          [options, part_of](int64_t step) {
            if (step >= options.warmup_steps) return options.then.at(step - options.warmup_steps);
            const double part =
                part_of(static_cast<double>(step) / static_cast<double>(options.warmup_steps));
            return options.start_learning_rate +
                   (options.then.at(0) - options.start_learning_rate) * part;
          }};
}

}  // namespace

LearningRate piecewise_constant_decay(const PiecewiseConstantDecayOptions& options) {
  const char* const schedule = "piecewise_constant_decay";
  if (options.values.size() != options.boundaries.size() + 1) {
    throw invalid_argument(fmt::format("{}: {} boundaries and {} values", schedule,
                                       options.boundaries.size(), options.values.size()),
                           "there must be one value more than boundaries");
  }
  if (std::ranges::adjacent_find(options.boundaries, std::greater_equal{}) !=
      options.boundaries.end()) {
    throw invalid_argument(
        fmt::format("{}: boundaries are {}", schedule, fmt::join(options.boundaries, ", ")),
        "boundaries must rise");
  }
  for (const double value : options.values) check_not_negative(schedule, "values", value);
  return {fmt::format("PiecewiseConstantDecay(boundaries=[{}], values=[{}])",
                      fmt::join(options.boundaries, ", "), fmt::join(options.values, ", ")),
          [options](int64_t step) {
            const auto next = std::ranges::lower_bound(options.boundaries, step);
            return options.values[static_cast<size_t>(next - options.boundaries.begin())];
          }};
}

LearningRate exponential_decay(const ExponentialDecayOptions& options) {
  check_positive("exponential_decay", "decay_rate", options.decay_rate);
  return decay("exponential_decay", "ExponentialDecay", options,
               [](double initial, double rate, double periods) {
                 return initial * std::pow(rate, periods);
               });
}

LearningRate inverse_time_decay(const InverseTimeDecayOptions& options) {
  check_not_negative("inverse_time_decay", "decay_rate", options.decay_rate);
  return decay(
      "inverse_time_decay", "InverseTimeDecay", options,
      [](double initial, double rate, double periods) { return initial / (1 + rate * periods); });
}

LearningRate polynomial_decay(const PolynomialDecayOptions& options) {
  const char* const schedule = "polynomial_decay";
  check_rate(schedule, "initial_learning_rate", options.initial_learning_rate);
  check_steps(schedule, "decay_steps", options.decay_steps);
  check_not_negative(schedule, "end_learning_rate", options.end_learning_rate);
  check_not_negative(schedule, "power", options.power);
  return {fmt::format("PolynomialDecay(initial_learning_rate={}, decay_steps={}, "
                      "end_learning_rate={}, power={}, cycle={})",
                      options.initial_learning_rate, options.decay_steps, options.end_learning_rate,
                      options.power, options.cycle),
          [options](int64_t step) { return polynomial(options, step); }};
}

LearningRate cosine_decay(const CosineDecayOptions& options) {
  const char* const schedule = "cosine_decay";
  check_rate(schedule, "initial_learning_rate", options.initial_learning_rate);
  check_steps(schedule, "decay_steps", options.decay_steps);
  check_not_negative(schedule, "alpha", options.alpha);
  return {fmt::format("CosineDecay(initial_learning_rate={}, decay_steps={}, alpha={})",
                      options.initial_learning_rate, options.decay_steps, options.alpha),
          [options](int64_t step) {
            const double part = static_cast<double>(std::min(step, options.decay_steps)) /
                                static_cast<double>(options.decay_steps);
            return options.initial_learning_rate *
                   ((1 - options.alpha) * half_cosine(part) + options.alpha);
          }};
}

LearningRate cosine_decay_restarts(const CosineDecayRestartsOptions& options) {
  const char* const schedule = "cosine_decay_restarts";
  check_rate(schedule, "initial_learning_rate", options.initial_learning_rate);
  check_steps(schedule, "first_decay_steps", options.first_decay_steps);
  if (!(std::isfinite(options.t_mul) && options.t_mul >= 1))
    throw bad_option(schedule, "t_mul", options.t_mul, "finite and at least 1");
  check_not_negative(schedule, "m_mul", options.m_mul);
  check_not_negative(schedule, "alpha", options.alpha);
  return {fmt::format("CosineDecayRestarts(initial_learning_rate={}, first_decay_steps={}, "
                      "t_mul={}, m_mul={}, alpha={})",
                      options.initial_learning_rate, options.first_decay_steps, options.t_mul,
                      options.m_mul, options.alpha),
          [options](int64_t step) { return restarts(options, step); }};
}

LearningRate linear_warmup(const WarmupOptions& options) {
  return warmup("linear_warmup", "LinearWarmup", options, [](double part) { return part; });
}

LearningRate cosine_warmup(const WarmupOptions& options) {
  return warmup("cosine_warmup", "CosineWarmup", options,
                [](double part) { return 1 - half_cosine(part); });
}

LearningRate one_cycle(const OneCycleOptions& options) {
  const char* const schedule = "one_cycle";
  check_rate(schedule, "max_learning_rate", options.max_learning_rate);
  check_steps(schedule, "total_steps", options.total_steps, 2);
  if (!(options.pct_start >= 0 && options.pct_start <= 1))
    throw bad_option(schedule, "pct_start", options.pct_start, "between 0 and 1");
  check_positive(schedule, "div_factor", options.div_factor);
  check_positive(schedule, "final_div_factor", options.final_div_factor);
  const bool linear = options.anneal_strategy == AnnealStrategy::kLinear;
  return {fmt::format("OneCycle(max_learning_rate={}, total_steps={}, pct_start={}, "
                      "anneal_strategy={}, div_factor={}, final_div_factor={}, three_phase={})",
                      options.max_learning_rate, options.total_steps, options.pct_start,
                      linear ? "linear" : "cos", options.div_factor, options.final_div_factor,
                      options.three_phase),
          [options](int64_t step) { return one_cycle_at(options, step); }};
}

}  // namespace muster::inline v0_1::optim
