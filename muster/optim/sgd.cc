#include "muster/optim/sgd.h"

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

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {
    internal::check_learning_rate("sgd", options.learning_rate);
    if (!(options.momentum >= 0 && options.momentum <= 1))
      throw internal::bad_option("sgd", "momentum", options.momentum, "between 0 and 1");
  }

  std::string name() const override { return "SGD"; }
  std::vector<SlotSpec> slots() const override {
    if (options_.momentum == 0) return {};
    return {{"momentum", 0.0}};
  }
  double learning_rate() const override { return options_.learning_rate; }
  std::string describe() const override {
    return fmt::format("SGD(learning_rate={}, momentum={}, nesterov={})", options_.learning_rate,
                       options_.momentum, options_.nesterov);
  }

  void update(const Segment& segment, int64_t) const override {
    internal::check_segment(*this, segment);
    at::NoGradGuard no_grad;
    const internal::SgdStep<double> step{options_.learning_rate, options_.momentum,
                                         segment.gradient_scale};
    if (!segment.weights.is_cpu()) return update_tensors(segment, step);
    with_weight_type(segment.weights.scalar_type(),
                     [&](auto zero) { update_elements(segment, step.cast<decltype(zero)>()); });
    internal::mark_written(segment.weights);
  }

 private:
  void update_tensors(const Segment& segment, const internal::SgdStep<double>& step) const {
    using internal::TensorOps;
    Tensor weights = segment.weights;
    if (options_.momentum == 0)
      return internal::sgd_formula<TensorOps>(weights, segment.gradient, step);
    Tensor velocity = segment.slots[0];
    if (options_.nesterov) {
      internal::momentum_formula<TensorOps, true>(weights, segment.gradient, velocity, step);
    } else {
      internal::momentum_formula<TensorOps, false>(weights, segment.gradient, velocity, step);
    }
  }

  template <typename T>
  void update_elements(const Segment& segment, const internal::SgdStep<T>& step) const {
    T* weights = segment.weights.data_ptr<T>();
    const T* gradient = segment.gradient.data_ptr<T>();
    const int64_t n = segment.weights.numel();
    if (options_.momentum == 0) return internal::sgd(weights, gradient, n, step);
    T* velocity = segment.slots[0].data_ptr<T>();
    if (options_.nesterov) {
      internal::sgd_nesterov(weights, gradient, velocity, n, step);
    } else {
      internal::sgd_momentum(weights, gradient, velocity, n, step);
    }
  }

  SgdOptions options_;
};

}  // namespace

Optimizer sgd(const SgdOptions& options) {
  return Optimizer(std::make_shared<Sgd>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
