#include "muster/optim/adam.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/optim/adamw.h"
#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/internal/scheduled_rule.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

// Adam and AdamW; `decays` says which.
class Adam final : public internal::ScheduledRule {
 public:
  Adam(const char* function, std::string name, bool decays, const AdamWOptions& options)
      : ScheduledRule(function, std::move(name), options.learning_rate),
        decays_(decays),
        options_(options),
        excluded_(function, "exclude_from_weight_decay", options.exclude_from_weight_decay) {
    internal::check_decay_rate(function, "beta_1", options.beta_1);
    internal::check_decay_rate(function, "beta_2", options.beta_2);
    internal::check_positive(function, "epsilon", options.epsilon);
    internal::check_not_negative(function, "weight_decay", options.weight_decay);
  }

  std::vector<SlotSpec> slots() const override {
    if (options_.amsgrad) return {{"m", 0.0}, {"v", 0.0}, {"vhat", 0.0}};
    return {{"m", 0.0}, {"v", 0.0}};
  }
  bool per_variable() const override { return !excluded_.empty(); }
  std::vector<NamePattern> name_patterns() const override { return excluded_.list(); }
  WeightDecay weight_decay() const override {
    return excluded_.weight_decay(decays_ ? options_.weight_decay : 0);
  }
  std::string describe() const override {
    return fmt::format(
        "{}(learning_rate={}, {}beta_1={}, beta_2={}, epsilon={}{}{}{})", name(),
        schedule().describe(),
        told_if(decays_, fmt::format("weight_decay={}, ", options_.weight_decay)), options_.beta_1,
        options_.beta_2, options_.epsilon, told_if(options_.amsgrad, ", amsgrad=true"),
        told_if(!excluded_.empty(), ", exclude_from_weight_decay=" + excluded_.describe()),
        told_if(options_.convention == Convention::kPyTorch, ", convention=PyTorch"));
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    const internal::AdamStep<double> step = step_of(segment, iterations);
    if (options_.amsgrad && decays_)
      return internal::update_anywhere<internal::AmsGradW>(segment, step);
    if (options_.amsgrad) return internal::update_anywhere<internal::AmsGrad>(segment, step);
    if (decays_) return internal::update_anywhere<internal::AdamW>(segment, step);
    internal::update_anywhere<internal::Adam>(segment, step);
  }

 private:
  internal::AdamStep<double> step_of(const Segment& segment, int64_t iterations) const {
    const double t = static_cast<double>(iterations) + 1;
    const double learning_rate = rate(segment, iterations);
    const double root = std::sqrt(1 - std::pow(options_.beta_2, t));
    const double alpha = learning_rate * root / (1 - std::pow(options_.beta_1, t));
    // Adding it before the correction of the root takes that correction.
    const double epsilon =
        options_.convention == Convention::kPyTorch ? options_.epsilon * root : options_.epsilon;
    const bool excluded =
        !excluded_.empty() && segment.variable && excluded_.match(segment.variable->name);
    return {alpha,   1 - options_.beta_1,    1 - options_.beta_2,
            epsilon, segment.gradient_scale, excluded ? 0 : learning_rate * options_.weight_decay};
  }

  const bool decays_;
  const AdamWOptions options_;
  const internal::NamePatterns excluded_;
};

}  // namespace

Optimizer adam(const AdamOptions& options) {
  return Optimizer(std::make_shared<Adam>("adam", "Adam", false,
                                          AdamWOptions{.learning_rate = options.learning_rate,
                                                       .beta_1 = options.beta_1,
                                                       .beta_2 = options.beta_2,
                                                       .epsilon = options.epsilon,
                                                       .amsgrad = options.amsgrad,
                                                       .convention = options.convention}),
                   options.name);
}

Optimizer adamw(const AdamWOptions& options) {
  return Optimizer(std::make_shared<Adam>("adamw", "AdamW", true, options), options.name);
}

}  // namespace muster::inline v0_1::optim
