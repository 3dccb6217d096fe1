#include "muster/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/optim/internal/kernels.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::optim {
namespace {

Error bad_option(const char* optimizer, const char* field, double value, const char* range) {
  return invalid_argument(fmt::format("{}: {} is {}", optimizer, field, value),
                          fmt::format("{} must be {}", field, range));
}

void check_learning_rate(const char* optimizer, double value) {
  if (!std::isfinite(value) || value < 0) {
    throw bad_option(optimizer, "learning_rate", value, "finite and at least 0");
  }
}

void check_fits(const UpdateRule& rule, const char* what, const Tensor& weights,
                const Tensor& tensor) {
  if (!tensor.defined()) {
    throw invalid_argument(
        fmt::format("{}: the {} of the segment is undefined", rule.name(), what));
  }
  if (tensor.dim() != 1 || !tensor.is_contiguous() || tensor.numel() != weights.numel() ||
      tensor.scalar_type() != weights.scalar_type() || tensor.device() != weights.device()) {
    throw invalid_argument(
        fmt::format("{}: the {} of the segment is {} on {}, the weights are {} on {}", rule.name(),
                    what, describe(tensor), tensor.device().str(), describe(weights),
                    weights.device().str()),
        "weights, gradient and slots must be contiguous, one-dimensional and of the same length, "
        "dtype and device");
  }
}

void check(const UpdateRule& rule, const Segment& segment, size_t slots) {
  if (!segment.weights.defined()) {
    throw invalid_argument(
        fmt::format("{}: the weights of the segment are undefined", rule.name()));
  }
  const DType dtype = segment.weights.scalar_type();
  if (dtype != kFloat32 && dtype != kFloat64) {
    throw invalid_argument(
        fmt::format("{}: cannot update {} weights", rule.name(), dtype_name(dtype)),
        "use float32 or float64 variables");
  }
  check_fits(rule, "weights", segment.weights, segment.weights);
  check_fits(rule, "gradient", segment.weights, segment.gradient);
  if (segment.slots.size() != slots) {
    throw invalid_argument(fmt::format("{}: the segment has {} slots, the rule needs {}",
                                       rule.name(), segment.slots.size(), slots));
  }
  for (const Tensor& slot : segment.slots) check_fits(rule, "slot", segment.weights, slot);
}

// Autograd must notice that saved weights changed, as it does for its own in-place operations.
void mark_written(const Tensor& weights) { weights.unsafeGetTensorImpl()->bump_version(); }

template <typename Fn>
void with_type(const Tensor& weights, Fn fn) {
  if (weights.scalar_type() == kFloat32) {
    fn(float{});
  } else {
    fn(double{});
  }
}

class Sgd final : public UpdateRule {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {
    check_learning_rate("sgd", options.learning_rate);
    if (!(options.momentum >= 0 && options.momentum <= 1)) {
      throw bad_option("sgd", "momentum", options.momentum, "between 0 and 1");
    }
  }

  std::string name() const override { return "SGD"; }
  std::vector<SlotSpec> slots() const override {
    if (options_.momentum == 0) return {};
    return {{"momentum", 0.0}};
  }
  double learning_rate() const override { return options_.learning_rate; }

  void update(const Segment& segment, int64_t) const override {
    check(*this, segment, options_.momentum == 0 ? 0 : 1);
    at::NoGradGuard no_grad;
    if (!segment.weights.is_cpu()) return update_anywhere(segment);
    with_type(segment.weights, [&](auto zero) {
      using T = decltype(zero);
      const internal::SgdStep<T> step{static_cast<T>(options_.learning_rate),
                                      static_cast<T>(options_.momentum),
                                      static_cast<T>(segment.gradient_scale)};
      T* weights = segment.weights.data_ptr<T>();
      const T* gradient = segment.gradient.data_ptr<T>();
      const int64_t n = segment.weights.numel();
      if (options_.momentum == 0) {
        internal::sgd(weights, gradient, n, step);
      } else if (options_.nesterov) {
        internal::sgd_nesterov(weights, gradient, segment.slots[0].data_ptr<T>(), n, step);
      } else {
        internal::sgd_momentum(weights, gradient, segment.slots[0].data_ptr<T>(), n, step);
      }
    });
    mark_written(segment.weights);
  }

 private:
  void update_anywhere(const Segment& segment) const {
    const double rate = options_.learning_rate * segment.gradient_scale;
    const Tensor& weights = segment.weights;
    if (options_.momentum == 0) {
      weights.sub_(segment.gradient, rate);
      return;
    }
    const Tensor& velocity = segment.slots[0];
    velocity.mul_(options_.momentum).sub_(segment.gradient, rate);
    if (options_.nesterov) {
      weights.add_(velocity, options_.momentum).sub_(segment.gradient, rate);
    } else {
      weights.add_(velocity);
    }
  }

  SgdOptions options_;
};

class Adam final : public UpdateRule {
 public:
  explicit Adam(const AdamOptions& options) : options_(options) {
    check_learning_rate("adam", options.learning_rate);
    if (!(options.beta_1 >= 0 && options.beta_1 < 1)) {
      throw bad_option("adam", "beta_1", options.beta_1, "at least 0 and below 1");
    }
    if (!(options.beta_2 >= 0 && options.beta_2 < 1)) {
      throw bad_option("adam", "beta_2", options.beta_2, "at least 0 and below 1");
    }
    if (!std::isfinite(options.epsilon) || options.epsilon <= 0) {
      throw bad_option("adam", "epsilon", options.epsilon, "finite and above 0");
    }
  }

  std::string name() const override { return "Adam"; }
  std::vector<SlotSpec> slots() const override { return {{"m", 0.0}, {"v", 0.0}}; }
  double learning_rate() const override { return options_.learning_rate; }

  void update(const Segment& segment, int64_t iterations) const override {
    check(*this, segment, 2);
    at::NoGradGuard no_grad;
    const double t = static_cast<double>(iterations) + 1;
    const double alpha = options_.learning_rate * std::sqrt(1 - std::pow(options_.beta_2, t)) /
                         (1 - std::pow(options_.beta_1, t));
    if (!segment.weights.is_cpu()) return update_anywhere(segment, alpha);
    with_type(segment.weights, [&](auto zero) {
      using T = decltype(zero);
      const internal::AdamStep<T> step{static_cast<T>(alpha), static_cast<T>(1 - options_.beta_1),
                                       static_cast<T>(1 - options_.beta_2),
                                       static_cast<T>(options_.epsilon),
                                       static_cast<T>(segment.gradient_scale)};
      internal::adam(segment.weights.data_ptr<T>(),
                     static_cast<const T*>(segment.gradient.data_ptr<T>()),
                     segment.slots[0].data_ptr<T>(), segment.slots[1].data_ptr<T>(),
                     segment.weights.numel(), step);
    });
    mark_written(segment.weights);
  }

 private:
  void update_anywhere(const Segment& segment, double alpha) const {
    const Tensor gradient = segment.gradient_scale == 1.0
                                ? segment.gradient
                                : segment.gradient.mul(segment.gradient_scale);
    const Tensor& m = segment.slots[0];
    const Tensor& v = segment.slots[1];
    m.lerp_(gradient, 1 - options_.beta_1);
    v.lerp_(gradient.square(), 1 - options_.beta_2);
    segment.weights.addcdiv_(m, v.sqrt().add_(options_.epsilon), -alpha);
  }

  AdamOptions options_;
};

class Adagrad final : public UpdateRule {
 public:
  explicit Adagrad(const AdagradOptions& options) : options_(options) {
    check_learning_rate("adagrad", options.learning_rate);
    if (!std::isfinite(options.initial_accumulator_value) ||
        options.initial_accumulator_value < 0) {
      throw bad_option("adagrad", "initial_accumulator_value", options.initial_accumulator_value,
                       "finite and at least 0");
    }
    if (!std::isfinite(options.epsilon) || options.epsilon <= 0) {
      throw bad_option("adagrad", "epsilon", options.epsilon, "finite and above 0");
    }
  }

  std::string name() const override { return "Adagrad"; }
  std::vector<SlotSpec> slots() const override {
    return {{"accumulator", options_.initial_accumulator_value}};
  }
  double learning_rate() const override { return options_.learning_rate; }

  void update(const Segment& segment, int64_t) const override {
    check(*this, segment, 1);
    at::NoGradGuard no_grad;
    if (!segment.weights.is_cpu()) return update_anywhere(segment);
    with_type(segment.weights, [&](auto zero) {
      using T = decltype(zero);
      const internal::AdagradStep<T> step{static_cast<T>(options_.learning_rate),
                                          static_cast<T>(options_.epsilon),
                                          static_cast<T>(segment.gradient_scale)};
      internal::adagrad(segment.weights.data_ptr<T>(),
                        static_cast<const T*>(segment.gradient.data_ptr<T>()),
                        segment.slots[0].data_ptr<T>(), segment.weights.numel(), step);
    });
    mark_written(segment.weights);
  }

 private:
  void update_anywhere(const Segment& segment) const {
    const Tensor gradient = segment.gradient_scale == 1.0
                                ? segment.gradient
                                : segment.gradient.mul(segment.gradient_scale);
    const Tensor& accumulator = segment.slots[0];
    accumulator.addcmul_(gradient, gradient);
    segment.weights.addcdiv_(gradient, accumulator.sqrt().add_(options_.epsilon),
                             -options_.learning_rate);
  }

  AdagradOptions options_;
};

}  // namespace

Optimizer::Optimizer(std::shared_ptr<const UpdateRule> rule, std::string name)
    : rule_(std::move(rule)), name_(std::move(name)) {
  if (!rule_) throw invalid_argument("an Optimizer was made without an update rule");
  if (name_.empty()) name_ = rule_->name();
}

Optimizer Optimizer::named(std::string name) const {
  Optimizer other = *this;
  other.name_ = name.empty() ? rule_->name() : std::move(name);
  return other;
}

Optimizer clip_by_global_norm(Optimizer optimizer, double max_norm) {
  if (!std::isfinite(max_norm) || max_norm <= 0) {
    throw bad_option("clip_by_global_norm", "max_norm", max_norm, "finite and more than 0");
  }
  optimizer.max_global_norm_ = max_norm;
  return optimizer;
}

TrainOp Optimizer::minimize(const Tensor& loss,
                            std::function<bool(const VariableSpec&)> filter) const {
  if (!loss.defined() || loss.numel() != 1) {
    throw invalid_argument(
        fmt::format("{}: cannot minimize {}: a loss is one number", name_,
                    loss.defined() ? describe(loss) : std::string("an undefined tensor")),
        "reduce the loss with .mean() or .sum()");
  }
  TrainOp train_op{.entries = {{loss, *this, std::move(filter)}}, .updates = {}};
  Recording::add(train_op);
  return train_op;
}

namespace {
thread_local Recording* innermost = nullptr;
}  // namespace

Recording::Recording() : outer_(std::exchange(innermost, this)) {}
Recording::~Recording() { innermost = outer_; }
TrainOp Recording::train_op() const { return group(parts_); }
void Recording::add(const TrainOp& train_op) {
  if (innermost != nullptr) innermost->parts_.push_back(train_op);
}

TrainOp group(std::vector<TrainOp> parts) {
  TrainOp all;
  for (TrainOp& part : parts) {
    std::move(part.entries.begin(), part.entries.end(), std::back_inserter(all.entries));
    std::move(part.updates.begin(), part.updates.end(), std::back_inserter(all.updates));
  }
  return all;
}

Optimizer sgd(const SgdOptions& options) {
  return Optimizer(std::make_shared<Sgd>(options), options.name);
}

Optimizer adam(const AdamOptions& options) {
  return Optimizer(std::make_shared<Adam>(options), options.name);
}

Optimizer adagrad(const AdagradOptions& options) {
  return Optimizer(std::make_shared<Adagrad>(options), options.name);
}

}  // namespace muster::inline v0_1::optim
