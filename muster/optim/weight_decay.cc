#include "muster/optim/weight_decay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/internal/wrapped_rule.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

class DecoupledWeightDecay final : public internal::WrappedRule {
 public:
  DecoupledWeightDecay(std::shared_ptr<const UpdateRule> inner, double weight_decay,
                       internal::NamePatterns excluded)
      : WrappedRule(std::move(inner)),
        weight_decay_(weight_decay),
        excluded_(std::move(excluded)) {}

  bool per_variable() const override { return !excluded_.empty() || inner().per_variable(); }
  std::vector<NamePattern> name_patterns() const override { return with_inner(excluded_); }
  WeightDecay weight_decay() const override {
    return std::max(excluded_.weight_decay(weight_decay_), inner().weight_decay());
  }
  std::string describe() const override {
    return fmt::format("{}, decoupled_weight_decay({}{})", inner().describe(), weight_decay_,
                       excluded_.empty() ? "" : ", exclude=" + excluded_.describe());
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    const bool spared = !excluded_.empty() && segment.variable != nullptr &&
                        excluded_.match(segment.variable->name);
    if (!spared) {
      const double rate = schedule().at(iterations) * segment.learning_rate_multiplier;
      internal::update_anywhere<internal::Decay>(segment, {rate * weight_decay_});
    }
    inner().update(segment, iterations);
  }

 private:
  const double weight_decay_;
  const internal::NamePatterns excluded_;
};

// Weights that decay twice are most often a rule that was taken for one without a decay.
void check_decays_once(const Optimizer& optimizer, double weight_decay,
                       const internal::NamePatterns& excluded) {
  const WeightDecay before = optimizer.rule().weight_decay();
  if (weight_decay == 0 || before == WeightDecay::kNone) return;
  if (before == WeightDecay::kSome && !excluded.empty()) return;
  throw invalid_argument(
      fmt::format("decoupled_weight_decay: the weights of {} decay already", optimizer.describe()),
      "give the optimizer its own weight_decay, or 0 there; two decays are for two groups of "
      "variables, and each excludes those of the other");
}

}  // namespace

Optimizer decoupled_weight_decay(Optimizer optimizer, const WeightDecayOptions& options) {
  const char* const function = "decoupled_weight_decay";
  if (std::isnan(options.weight_decay)) {
    throw invalid_argument("decoupled_weight_decay: weight_decay is not given",
                           "say it: decoupled_weight_decay(optimizer, {.weight_decay = 0.004})");
  }
  internal::check_not_negative(function, "weight_decay", options.weight_decay);
  const internal::NamePatterns excluded(function, "exclude", options.exclude);
  check_decays_once(optimizer, options.weight_decay, excluded);
  return optimizer.around([&](std::shared_ptr<const UpdateRule> inner) {
    return std::make_shared<DecoupledWeightDecay>(std::move(inner), options.weight_decay, excluded);
  });
}

}  // namespace muster::inline v0_1::optim
