#include "muster/layers/dense.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/matrix_product.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class DenseImpl final : public UnaryLayerImpl {
 public:
  DenseImpl(int64_t units, DenseOptions options)
      : UnaryLayerImpl("dense", options.name), units_(units), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    if (input.dim() < 2) {
      internal::refuse_input(context, identity(), "[batch, features]", input);
    }
    const Tensor& variable = context.variable(identity(), 0, [this, &input, &context] {
      return VariableSpec{.name = "kernel",
                          .shape = {input.size(-1), units_},
                          .dtype = internal::weight_dtype_for(input, context, identity()),
                          .initializer = options_.kernel_initializer,
                          .regularizer = options_.kernel_regularizer,
                          .constraint = options_.kernel_constraint};
    });
    const Tensor kernel = internal::weight_for(input, variable, context, identity());
    if (input.size(-1) != kernel.size(0)) {
      internal::refuse_input(context, identity(), fmt::format("[..., {}]", kernel.size(0)), input,
                             "a layer is called with as many features as at its first call");
    }
    Tensor output = internal::activated(options_.activation, linear_part(input, kernel, context));
    context.add_activity_loss(options_.activity_regularizer, output);
    return output;
  }

  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

 private:
  Tensor linear_part(const Tensor& input, const Tensor& kernel, CallContext& context) const {
    if (!options_.use_bias) return product(input, kernel, Tensor(), context);
    const Tensor& bias = context.variable(identity(), 1, [this, &input, &context] {
      return VariableSpec{.name = "bias",
                          .shape = {units_},
                          .dtype = internal::weight_dtype_for(input, context, identity()),
                          .initializer = options_.bias_initializer,
                          .regularizer = options_.bias_regularizer,
                          .constraint = options_.bias_constraint};
    });
    return product(input, kernel, internal::weight_for(input, bias, context, identity()), context);
  }

  static Tensor product(const Tensor& input, const Tensor& kernel, const Tensor& bias,
                        const CallContext& context) {
    if (input.scalar_type() == kBFloat16) {
      const Tensor rows = input.flatten(0, -2);
      Shape shape(input.sizes().begin(), input.sizes().end());
      shape.back() = kernel.size(1);
      return internal::affine(rows, kernel, bias).view(shape);
    }
    if (input.dim() != 2) {
      return bias.defined() ? input.matmul(kernel) + bias : input.matmul(kernel);
    }
    // A replica that is alone has no buffer that gradients must be brought to.
    if (context.training() && context.num_replicas() > 1) {
      return internal::matrix_product(input, kernel, bias);
    }
    return bias.defined() ? at::addmm(bias, input, kernel) : at::mm(input, kernel);
  }

  int64_t units_;
  DenseOptions options_;
};

}  // namespace

Layer Dense(int64_t units, DenseOptions options) {
  internal::check_positive(internal::titled("Dense", options.name), "units", units);
  return Layer(std::make_shared<DenseImpl>(units, std::move(options)));
}

}  // namespace muster::inline v0_1
