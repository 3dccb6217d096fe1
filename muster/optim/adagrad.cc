#include "muster/optim/adagrad.h"

#include <fmt/format.h>

#include "muster/optim/internal/formulas.h"
#include "muster/optim/internal/kernels.h"
#include "muster/optim/internal/options.h"
#include "muster/optim/internal/segment.h"
#include "muster/optim/internal/tensor_ops.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::optim {
namespace {

class Adagrad final : public UpdateRule {
 public:
  explicit Adagrad(const AdagradOptions& options) : options_(options) {
    internal::check_learning_rate("adagrad", options.learning_rate);
    internal::check_not_negative("adagrad", "initial_accumulator_value",
                                 options.initial_accumulator_value);
    internal::check_positive("adagrad", "epsilon", options.epsilon);
  }

  std::string name() const override { return "Adagrad"; }
  std::vector<SlotSpec> slots() const override {
    return {{"accumulator", options_.initial_accumulator_value}};
  }
  double learning_rate() const override { return options_.learning_rate; }
  std::string describe() const override {
    return fmt::format("Adagrad(learning_rate={}, initial_accumulator_value={}, epsilon={})",
                       options_.learning_rate, options_.initial_accumulator_value,
                       options_.epsilon);
  }

  void update(const Segment& segment, int64_t) const override {
    internal::check_segment(*this, segment);
    at::NoGradGuard no_grad;
    const internal::AdagradStep<double> step{options_.learning_rate, options_.epsilon,
                                             segment.gradient_scale};
    if (!segment.weights.is_cpu()) {
      Tensor weights = segment.weights, accumulator = segment.slots[0];
      return internal::adagrad_formula<internal::TensorOps>(weights, segment.gradient, accumulator,
                                                            step);
    }
    with_weight_type(segment.weights.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      internal::adagrad(segment.weights.data_ptr<T>(),
                        static_cast<const T*>(segment.gradient.data_ptr<T>()),
                        segment.slots[0].data_ptr<T>(), segment.weights.numel(), step.cast<T>());
    });
    internal::mark_written(segment.weights);
  }

 private:
  AdagradOptions options_;
};

}  // namespace

Optimizer adagrad(const AdagradOptions& options) {
  return Optimizer(std::make_shared<Adagrad>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
