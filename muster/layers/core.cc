#include "muster/layers/core.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/image_bodies.h"
#include "muster/layers/internal/matrix_product.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class DenseBody final : public LayerBody {
 public:
  DenseBody(int64_t units, DenseOptions options)
      : LayerBody("dense", options.name), units_(units), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    if (input.dim() < 2) {
      internal::refuse_input(context, identity(), "[batch, features]", input);
    }
    const Tensor& kernel = context.variable(identity(), 0, [this, &input] {
      return VariableSpec{.name = "kernel",
                          .shape = {input.size(-1), units_},
                          .dtype = input.scalar_type(),
                          .initializer = options_.kernel_initializer};
    });
    internal::check_same_dtype(context, identity(), input, kernel);
    if (input.size(-1) != kernel.size(0)) {
      internal::refuse_input(context, identity(), fmt::format("[..., {}]", kernel.size(0)), input,
                             "a layer is called with as many features as at its first call");
    }
    return activations::apply(options_.activation, linear_part(input, kernel, context));
  }

 private:
  Tensor linear_part(const Tensor& input, const Tensor& kernel, CallContext& context) const {
    if (!options_.use_bias) return product(input, kernel, Tensor(), context);
    const Tensor& bias = context.variable(identity(), 1, [this, &input] {
      return VariableSpec{.name = "bias",
                          .shape = {units_},
                          .dtype = input.scalar_type(),
                          .initializer = options_.bias_initializer};
    });
    return product(input, kernel, bias, context);
  }

  static Tensor product(const Tensor& input, const Tensor& kernel, const Tensor& bias,
                        const CallContext& context) {
    if (input.dim() != 2) {
      return bias.defined() ? input.matmul(kernel) + bias : input.matmul(kernel);
    }
    // Alone there is nowhere gradients have to be brought to.
    if (context.training() && context.num_replicas() > 1) {
      return internal::matrix_product(input, kernel, bias);
    }
    return bias.defined() ? at::addmm(bias, input, kernel) : at::mm(input, kernel);
  }

  int64_t units_;
  DenseOptions options_;
};

class FlattenBody final : public LayerBody {
 public:
  explicit FlattenBody(std::string name) : LayerBody("flatten", std::move(name)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (input.dim() < 1) {
      internal::refuse_input(context, identity(), "[batch, ...]", input);
    }
    return input.dim() == 1 ? input.unsqueeze(1) : input.flatten(1);
  }
};

// 0 with probability `rate`, else `scale`: element i is decided by word i of the key's stream.
template <typename T>
void fill_mask(T* mask, int64_t n, RandomKey key, double rate) {
  const T scale = static_cast<T>(1 / (1 - rate));
  const auto threshold = static_cast<uint64_t>(std::ldexp(rate, 32));
  Random random(key);
  for (int64_t i = 0; i < n; ++i) mask[i] = random.next_u32() < threshold ? T{0} : scale;
}

class DropoutBody final : public LayerBody {
 public:
  DropoutBody(double rate, std::string name) : LayerBody("dropout", std::move(name)), rate_(rate) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (!context.training() || rate_ == 0) return input;
    internal::check_dtype(context, identity(), input);
    const RandomKey key = context.random_key(identity());
    Tensor mask = at::empty(input.sizes(), input.scalar_type());
    if (input.scalar_type() == kFloat32) {
      fill_mask(mask.data_ptr<float>(), mask.numel(), key, rate_);
    } else {
      fill_mask(mask.data_ptr<double>(), mask.numel(), key, rate_);
    }
    return input * mask.to(input.device());
  }

 private:
  double rate_;
};

class SequentialBody final : public LayerBody {
 public:
  explicit SequentialBody(std::vector<Layer> layers) : LayerBody("sequential", "") {
    for (Layer& layer : layers) {
      if (const auto* inner = dynamic_cast<const SequentialBody*>(&layer.body())) {
        layers_.insert(layers_.end(), inner->layers_.begin(), inner->layers_.end());
      } else {
        layers_.push_back(std::move(layer));
      }
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
      Step step{.layer = &layers_[i].body()};
      const auto* conv = dynamic_cast<const internal::Conv2DBody*>(step.layer);
      if (conv && conv->options().activation == Activation::kRelu && i + 1 < layers_.size()) {
        const auto* pool = dynamic_cast<const internal::MaxPooling2DBody*>(&layers_[i + 1].body());
        if (pool) {
          step.conv = conv;
          step.pool = pool;
          ++i;
        }
      }
      steps_.push_back(step);
    }
  }

  Tensor call(const Tensor& input, CallContext& context) const override {
    Tensor value = input;
    for (const Step& step : steps_) {
      value = step.pool ? internal::conv_relu_pool(*step.conv, *step.pool, value, context)
                        : step.layer->call(value, context);
    }
    return value;
  }

 private:
  struct Step {
    const LayerBody* layer = nullptr;
    const internal::Conv2DBody* conv = nullptr;  // with relu, followed by pool
    const internal::MaxPooling2DBody* pool = nullptr;
  };
  std::vector<Layer> layers_;
  std::vector<Step> steps_;
};

}  // namespace

Layer Dense(int64_t units, DenseOptions options) {
  internal::check_positive("Dense", "units", units);
  return Layer(std::make_shared<DenseBody>(units, std::move(options)));
}

Layer Flatten(std::string name) { return Layer(std::make_shared<FlattenBody>(std::move(name))); }

Layer Dropout(double rate, std::string name) {
  if (!(rate >= 0 && rate < 1)) {
    throw invalid_argument(fmt::format("Dropout: rate is {}", rate),
                           "rate must be at least 0 and below 1");
  }
  return Layer(std::make_shared<DropoutBody>(rate, std::move(name)));
}

Layer Sequential(std::vector<Layer> layers) {
  return Layer(std::make_shared<SequentialBody>(std::move(layers)));
}

}  // namespace muster::inline v0_1
