#include "muster/optim/rmsprop.h"

#include <fmt/format.h>

#include "muster/optim/internal/scheduled_rule.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

class Rmsprop final : public internal::ScheduledRule {
 public:
  explicit Rmsprop(const RmspropOptions& options)
      : ScheduledRule("rmsprop", "RMSprop", options.learning_rate), options_(options) {
    internal::check_decay_rate("rmsprop", "rho", options.rho);
    if (!(options.momentum >= 0 && options.momentum <= 1))
      throw internal::bad_option("rmsprop", "momentum", options.momentum, "between 0 and 1");
    internal::check_positive("rmsprop", "epsilon", options.epsilon);
  }

  std::vector<SlotSpec> slots() const override {
    std::vector<SlotSpec> slots{{"rms", 0.0}};
    if (options_.momentum > 0) slots.push_back({"momentum", 0.0});
    if (options_.centered) slots.push_back({"mg", 0.0});
    return slots;
  }
  std::string describe() const override {
    return fmt::format(
        "RMSprop(learning_rate={}, rho={}, momentum={}, epsilon={}, centered={}{})",
        schedule().describe(), options_.rho, options_.momentum, options_.epsilon, options_.centered,
        told_if(pytorch(), ", convention=PyTorch") + told_if(keras(), ", convention=Keras"));
  }

  void update(const Segment& segment, int64_t iterations) const override {
    using namespace internal;  // many formulas
    check_segment(*this, segment);
    const RmsPropStep<double> step{rate(segment, iterations), 1 - options_.rho, options_.momentum,
                                   options_.epsilon, segment.gradient_scale};
    const bool centered = options_.centered;
    if (keras() && options_.momentum == 0) {
      return centered ? update_anywhere<KerasCenteredRmsProp>(segment, step)
                      : update_anywhere<KerasRmsProp>(segment, step);
    }
    if (options_.momentum == 0 && !centered) return update_anywhere<PlainRmsProp>(segment, step);
    if (options_.momentum == 0) return update_anywhere<CenteredRmsProp>(segment, step);
    if (pytorch() && !centered) return update_anywhere<PyTorchRmsProp>(segment, step);
    if (pytorch()) return update_anywhere<PyTorchCenteredRmsProp>(segment, step);
    if (!centered) return update_anywhere<MovingRmsProp>(segment, step);
    update_anywhere<CenteredMovingRmsProp>(segment, step);
  }

 private:
  bool pytorch() const { return options_.convention == Convention::kPyTorch; }
  bool keras() const { return options_.convention == Convention::kKeras; }

  const RmspropOptions options_;
};

}  // namespace

Optimizer rmsprop(const RmspropOptions& options) {
  return Optimizer(std::make_shared<Rmsprop>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
