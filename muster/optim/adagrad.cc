#include "muster/optim/adagrad.h"

#include <fmt/format.h>

#include "muster/optim/internal/scheduled_rule.h"
#include "muster/optim/internal/update_anywhere.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

class Adagrad final : public internal::ScheduledRule {
 public:
  explicit Adagrad(const AdagradOptions& options)
      : ScheduledRule("adagrad", "Adagrad", options.learning_rate), options_(options) {
    internal::check_not_negative("adagrad", "initial_accumulator_value",
                                 options.initial_accumulator_value);
    internal::check_positive("adagrad", "epsilon", options.epsilon);
  }

  std::vector<SlotSpec> slots() const override {
    return {{"accumulator", options_.initial_accumulator_value}};
  }
  std::string describe() const override {
    return fmt::format("Adagrad(learning_rate={}, initial_accumulator_value={}, epsilon={}{})",
                       schedule().describe(), options_.initial_accumulator_value, options_.epsilon,
                       told_if(keras(), ", convention=Keras"));
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    const internal::AdagradStep<double> step{rate(segment, iterations), options_.epsilon,
                                             segment.gradient_scale};
    if (keras()) return internal::update_anywhere<internal::KerasAdagrad>(segment, step);
    internal::update_anywhere<internal::Adagrad>(segment, step);
  }

 private:
  bool keras() const { return options_.convention == Convention::kKeras; }

  const AdagradOptions options_;
};

}  // namespace

Optimizer adagrad(const AdagradOptions& options) {
  return Optimizer(std::make_shared<Adagrad>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
