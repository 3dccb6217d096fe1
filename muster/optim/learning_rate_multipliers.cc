#include "muster/optim/learning_rate_multipliers.h"

#include <fmt/format.h>

#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/internal/wrapped_rule.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {
namespace {

struct MultiplierOf {
  internal::NamePatterns variables;
  double multiplier;
};

class LearningRateMultipliers final : public internal::WrappedRule {
 public:
  LearningRateMultipliers(std::shared_ptr<const UpdateRule> inner,
                          std::vector<MultiplierOf> multipliers)
      : WrappedRule(std::move(inner)), multipliers_(std::move(multipliers)) {}

  bool per_variable() const override { return true; }
  std::vector<NamePattern> name_patterns() const override {
    std::vector<NamePattern> all = inner().name_patterns();
    for (const MultiplierOf& one : multipliers_) {
      for (NamePattern& pattern : one.variables.list()) all.push_back(std::move(pattern));
    }
    return all;
  }
  std::string describe() const override {
    std::string text;
    for (const MultiplierOf& one : multipliers_) {
      text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", one.variables.describe(),
                          one.multiplier);
    }
    return fmt::format("{}, learning_rate_multipliers({})", inner().describe(), text);
  }

  void update(const Segment& segment, int64_t iterations) const override {
    Segment changed = segment;
    if (segment.variable != nullptr)
      changed.learning_rate_multiplier *= multiplier_of(segment.variable->name);
    inner().update(changed, iterations);
  }

 private:
  double multiplier_of(const std::string& name) const {
    for (const MultiplierOf& one : multipliers_) {
      if (one.variables.match(name)) return one.multiplier;
    }
    return 1;
  }

  const std::vector<MultiplierOf> multipliers_;
};

}  // namespace

Optimizer learning_rate_multipliers(Optimizer optimizer,
                                    const std::vector<LearningRateMultiplier>& multipliers) {
  const char* const function = "learning_rate_multipliers";
  std::vector<MultiplierOf> checked;
  for (const LearningRateMultiplier& one : multipliers) {
    internal::check_not_negative(function, "multiplier", one.multiplier);
    checked.push_back({{function, "variables", {one.variables}}, one.multiplier});
  }
  return optimizer.around([&](std::shared_ptr<const UpdateRule> inner) {
    return std::make_shared<LearningRateMultipliers>(std::move(inner), checked);
  });
}

}  // namespace muster::inline v0_1::optim
