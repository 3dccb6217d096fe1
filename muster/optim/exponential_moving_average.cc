#include "muster/optim/exponential_moving_average.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/optim/internal/following_rule.h"
#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

constexpr const char* kMovingAverage = "exponential_moving_average";

class ExponentialMovingAverage final : public internal::FollowingRule {
 public:
  ExponentialMovingAverage(std::shared_ptr<const UpdateRule> inner,
                           const MovingAverageOptions& options, internal::NamePatterns excluded)
      : FollowingRule(kMovingAverage, std::move(inner),
                      {.name = kAverageSlot, .begins_as_weights = true}),
        options_(options),
        excluded_(std::move(excluded)) {}

  bool per_variable() const override { return !excluded_.empty() || inner().per_variable(); }
  std::vector<NamePattern> name_patterns() const override { return with_inner(excluded_); }
  std::string describe() const override {
    std::string text = fmt::format("{}, {}({}", inner().describe(), kMovingAverage, options_.decay);
    if (options_.start_step > 0) text += fmt::format(", start_step={}", options_.start_step);
    if (options_.dynamic_decay) text += ", dynamic_decay";
    if (options_.overwrite_frequency > 0)
      text += fmt::format(", overwrite_frequency={}", options_.overwrite_frequency);
    if (!excluded_.empty()) text += ", exclude=" + excluded_.describe();
    return text + ")";
  }

 protected:
  bool follows(int64_t /*iterations*/) const override { return true; }
  void follow(const Segment& own, int64_t iterations) const override {
    const bool excluded =
        !excluded_.empty() && own.variable != nullptr && excluded_.match(own.variable->name);
    const double decay = excluded ? 0 : decay_at(iterations);
    if (decay == 0) {
      own.slots[0].copy_(own.weights);
    } else if (overwrites(iterations)) {
      internal::update_anywhere<internal::StepBack>(own, {1 - decay});
    } else {
      internal::update_anywhere<internal::MovingAverage>(own, {1 - decay});
    }
  }

 private:
  double decay_at(int64_t iterations) const {
    if (iterations < options_.start_step) return 0;
    if (!options_.dynamic_decay) return options_.decay;
    const auto n = static_cast<double>(iterations - options_.start_step);
    return std::min(options_.decay, (1 + n) / (10 + n));
  }
  bool overwrites(int64_t iterations) const {
    return options_.overwrite_frequency > 0 && (iterations + 1) % options_.overwrite_frequency == 0;
  }

  const MovingAverageOptions options_;
  const internal::NamePatterns excluded_;
};

}  // namespace

Optimizer exponential_moving_average(Optimizer optimizer, const MovingAverageOptions& options) {
  internal::check_decay_rate(kMovingAverage, "decay", options.decay);
  internal::check_at_least(kMovingAverage, "start_step", options.start_step, 0);
  internal::check_at_least(kMovingAverage, "overwrite_frequency", options.overwrite_frequency, 0);
  const internal::NamePatterns excluded(kMovingAverage, "exclude", options.exclude);
  return optimizer.around([&](std::shared_ptr<const UpdateRule> inner) {
    return std::make_shared<ExponentialMovingAverage>(std::move(inner), options, excluded);
  });
}

}  // namespace muster::inline v0_1::optim
