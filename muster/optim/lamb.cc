#include "muster/optim/lamb.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/optim/internal/layer_adaptation.h"
#include "muster/optim/internal/scheduled_rule.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

class Lamb final : public internal::ScheduledRule {
 public:
  explicit Lamb(const LambOptions& options)
      : ScheduledRule("lamb", "LAMB", options.learning_rate),
        options_(options),
        adaptation_("lamb", options.exclude_from_weight_decay,
                    options.exclude_from_layer_adaptation) {
    internal::check_decay_rate("lamb", "beta_1", options.beta_1);
    internal::check_decay_rate("lamb", "beta_2", options.beta_2);
    internal::check_positive("lamb", "epsilon", options.epsilon);
    internal::check_not_negative("lamb", "weight_decay", options.weight_decay);
  }

  std::vector<SlotSpec> slots() const override { return {{"m", 0.0}, {"v", 0.0}}; }
  bool per_variable() const override { return true; }
  std::vector<NamePattern> name_patterns() const override { return adaptation_.name_patterns(); }
  WeightDecay weight_decay() const override {
    return adaptation_.weight_decay(options_.weight_decay);
  }
  std::string describe() const override {
    return fmt::format(
        "LAMB(learning_rate={}, beta_1={}, beta_2={}, epsilon={}, weight_decay={}{})",
        schedule().describe(), options_.beta_1, options_.beta_2, options_.epsilon,
        options_.weight_decay, adaptation_.describe());
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    const double t = static_cast<double>(iterations) + 1;
    internal::LambStep<double> step{1 - options_.beta_1,
                                    1 - options_.beta_2,
                                    1 / (1 - std::pow(options_.beta_1, t)),
                                    1 / std::sqrt(1 - std::pow(options_.beta_2, t)),
                                    options_.epsilon,
                                    adaptation_.decays(segment) ? options_.weight_decay : 0,
                                    segment.gradient_scale};
    const internal::LambSums sums = moments(segment, step);
    double ratio = 1;
    if (adaptation_.adapts(segment) && sums.weights > 0 && sums.direction > 0)
      ratio = std::sqrt(sums.weights) / std::sqrt(sums.direction);
    step.learning_rate = rate(segment, iterations) * ratio;
    internal::update_anywhere<internal::Lamb>(segment, step);
  }

 private:
  // The first pass.
  static internal::LambSums moments(const Segment& segment,
                                    const internal::LambStep<double>& step) {
    at::NoGradGuard no_grad;
    const Tensor &w = segment.weights, &g = segment.gradient;
    Tensor m = segment.slots[0], v = segment.slots[1];
    if (!w.is_cpu()) {
      using internal::TensorOps;
      internal::Lamb::moments<TensorOps>(g, m, v, step);
      return {internal::sum_of_squares(w),
              internal::sum_of_squares(internal::Lamb::direction<TensorOps>(w, m, v, step))};
    }
    return with_weight_type(w.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      return internal::lamb_moments<T>(w.data_ptr<T>(), g.data_ptr<T>(), m.data_ptr<T>(),
                                       v.data_ptr<T>(), w.numel(), internal::cast<T>(step));
    });
  }

  const LambOptions options_;
  const internal::LayerAdaptation adaptation_;
};

}  // namespace

Optimizer lamb(const LambOptions& options) {
  return Optimizer(std::make_shared<Lamb>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
