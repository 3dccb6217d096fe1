#include "muster/optim/lars.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/optim/internal/layer_adaptation.h"
#include "muster/optim/internal/scheduled_rule.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

class Lars final : public internal::ScheduledRule {
 public:
  explicit Lars(const LarsOptions& options)
      : ScheduledRule("lars", "LARS", options.learning_rate),
        options_(options),
        adaptation_("lars", options.exclude_from_weight_decay,
                    options.exclude_from_layer_adaptation) {
    if (!(options.momentum >= 0 && options.momentum <= 1))
      throw internal::bad_option("lars", "momentum", options.momentum, "between 0 and 1");
    internal::check_not_negative("lars", "weight_decay", options.weight_decay);
    internal::check_positive("lars", "eeta", options.eeta);
    internal::check_not_negative("lars", "epsilon", options.epsilon);
  }

  std::vector<SlotSpec> slots() const override { return {{"momentum", 0.0}}; }
  bool per_variable() const override { return true; }
  std::vector<NamePattern> name_patterns() const override { return adaptation_.name_patterns(); }
  WeightDecay weight_decay() const override {
    return adaptation_.weight_decay(options_.weight_decay);
  }
  std::string describe() const override {
    return fmt::format(
        "LARS(learning_rate={}, momentum={}, weight_decay={}, eeta={}, epsilon={}, nesterov={}{})",
        schedule().describe(), options_.momentum, options_.weight_decay, options_.eeta,
        options_.epsilon, options_.nesterov, adaptation_.describe());
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    const double decay = adaptation_.decays(segment) ? options_.weight_decay : 0;
    const double ratio = adaptation_.adapts(segment) ? trust_ratio(segment, decay) : 1;
    const internal::LarsStep<double> step{rate(segment, iterations) * ratio, options_.momentum,
                                          decay, segment.gradient_scale};
    if (options_.nesterov) return internal::update_anywhere<internal::NesterovLars>(segment, step);
    internal::update_anywhere<internal::Lars>(segment, step);
  }

 private:
  double trust_ratio(const Segment& segment, double decay) const {
    const double weights = std::sqrt(internal::sum_of_squares(segment.weights));
    const double gradient =
        std::sqrt(internal::sum_of_squares(segment.gradient)) * std::abs(segment.gradient_scale);
    if (weights == 0 || gradient == 0) return 1;
    return options_.eeta * weights / (gradient + decay * weights + options_.epsilon);
  }

  const LarsOptions options_;
  const internal::LayerAdaptation adaptation_;
};

}  // namespace

Optimizer lars(const LarsOptions& options) {
  return Optimizer(std::make_shared<Lars>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
