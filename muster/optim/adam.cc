#include "muster/optim/adam.h"

#include <fmt/format.h>

#include <cmath>

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

class Adam final : public UpdateRule {
 public:
  explicit Adam(const AdamOptions& options) : options_(options) {
    internal::check_learning_rate("adam", options.learning_rate);
    internal::check_decay_rate("adam", "beta_1", options.beta_1);
    internal::check_decay_rate("adam", "beta_2", options.beta_2);
    internal::check_positive("adam", "epsilon", options.epsilon);
  }

  std::string name() const override { return "Adam"; }
  std::vector<SlotSpec> slots() const override { return {{"m", 0.0}, {"v", 0.0}}; }
  double learning_rate() const override { return options_.learning_rate; }
  std::string describe() const override {
    return fmt::format("Adam(learning_rate={}, beta_1={}, beta_2={}, epsilon={})",
                       options_.learning_rate, options_.beta_1, options_.beta_2, options_.epsilon);
  }

  void update(const Segment& segment, int64_t iterations) const override {
    internal::check_segment(*this, segment);
    at::NoGradGuard no_grad;
    const internal::AdamStep<double> step = step_of(segment, iterations);
    if (!segment.weights.is_cpu()) {
      Tensor weights = segment.weights, m = segment.slots[0], v = segment.slots[1];
      return internal::adam_formula<internal::TensorOps>(weights, segment.gradient, m, v, step);
    }
    with_weight_type(segment.weights.scalar_type(), [&](auto zero) {
      using T = decltype(zero);
      internal::adam(segment.weights.data_ptr<T>(),
                     static_cast<const T*>(segment.gradient.data_ptr<T>()),
                     segment.slots[0].data_ptr<T>(), segment.slots[1].data_ptr<T>(),
                     segment.weights.numel(), step.cast<T>());
    });
    internal::mark_written(segment.weights);
  }

 private:
  internal::AdamStep<double> step_of(const Segment& segment, int64_t iterations) const {
    const double t = static_cast<double>(iterations) + 1;
    const double alpha = options_.learning_rate * std::sqrt(1 - std::pow(options_.beta_2, t)) /
                         (1 - std::pow(options_.beta_1, t));
    return {alpha, 1 - options_.beta_1, 1 - options_.beta_2, options_.epsilon,
            segment.gradient_scale};
  }

  AdamOptions options_;
};

}  // namespace

Optimizer adam(const AdamOptions& options) {
  return Optimizer(std::make_shared<Adam>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
