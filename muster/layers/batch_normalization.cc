#include "muster/layers/batch_normalization.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/affine_normalization.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/fused_relu.h"
#include "muster/layers/internal/weights.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Mean and variance of the rows of a step.
struct Moments {
  double count = 0;
  Tensor mean{};      // [channels]
  Tensor variance{};  // [channels]
};

// Computes them of the rows of this replica.
Moments moments_of(const Tensor& rows) {
  const auto count = static_cast<double>(rows.size(0));
  // Without rows both are zeros, and the graph is like that of the other replicas.
  const double divisor = std::max(count, 1.0);
  const Tensor mean = rows.sum(0) / divisor;
  return {count, mean, (rows - mean).square().sum(0) / divisor};
}

// Joins the moments of all replicas. It takes no difference of large numbers, so no digits are
// lost.
Moments moments_over_replicas(const Moments& mine, const CallContext& context) {
  const int64_t channels = mine.mean.size(0);
  const Tensor numbers =
      torch::cat({torch::full({1}, mine.count, mine.mean.options().requires_grad(false)), mine.mean,
                  mine.variance});
  // Each replica's numbers are in a row of their own, so the sum over replicas holds all of them.
  std::vector<Tensor> rows(static_cast<size_t>(context.num_replicas()),
                           torch::zeros_like(numbers.detach()));
  rows[static_cast<size_t>(context.replica())] = numbers;
  const Tensor all = context.sum_over_replicas(torch::stack(rows));
  const Tensor counts = all.slice(1, 0, 1).detach();
  const Tensor means = all.slice(1, 1, 1 + channels), variances = all.slice(1, 1 + channels);
  Moments joint{.count = counts.sum().item<double>()};
  const Tensor shares = counts / std::max(joint.count, 1.0);
  joint.mean = (means * shares).sum(0);
  joint.variance = ((variances + (means - joint.mean).square()) * shares).sum(0);
  return joint;
}

class BatchNormalizationImpl final : public UnaryLayerImpl,
                                     public internal::FusesRelu,
                                     public internal::AffineNormalization {
 public:
  explicit BatchNormalizationImpl(BatchNormalizationOptions options)
      : UnaryLayerImpl("batch_normalization", options.name), options_(std::move(options)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    return normalized(input, context, /*relu=*/false);
  }

  LayerOutputs call_with_relu(const LayerInputs& inputs, CallContext& context) const override {
    const Tensor& input = internal::single_tensor(context, identity(), inputs, keeps_steps());
    return {.tensors = {normalized(input, context, /*relu=*/true)}, .masks = inputs.masks};
  }

  // As in Keras, steps that do not count are in the statistics.
  bool keeps_steps() const override { return true; }
  LayerPrecision precision() const override { return LayerPrecision::kWidenedOnCpu; }
  double epsilon() const override { return options_.epsilon; }

  Variables variables(const Tensor& input, CallContext& context) const override {
    internal::check_dtype(context, identity(), input);
    if (input.dim() < 2) {
      internal::refuse_input(context, identity(), "[batch, ..., channels]", input);
    }
    const Shape channels{input.size(-1)};
    Tensor gamma, beta;
    if (options_.scale) {
      gamma = internal::weight(context, identity(), 0, "gamma", channels, input,
                               options_.gamma_initializer, options_.gamma_regularizer,
                               options_.gamma_constraint);
    }
    if (options_.center) {
      beta = internal::weight(context, identity(), 1, "beta", channels, input,
                              options_.beta_initializer, options_.beta_regularizer,
                              options_.beta_constraint);
    }
    const Tensor moving_mean =
        moving(2, "moving_mean", options_.moving_mean_initializer, input, context);
    const Tensor moving_variance =
        moving(3, "moving_variance", options_.moving_variance_initializer, input, context);
    internal::check_same_dtype(context, identity(), input, moving_mean);
    if (input.size(-1) != moving_mean.size(0)) {
      internal::refuse_input(context, identity(), fmt::format("[..., {}]", moving_mean.size(0)),
                             input, "a layer is called with as many channels as at its first call");
    }
    return {gamma, beta, moving_mean, moving_variance};
  }

 private:
  // The input for which the variables are made: its sizes, and float32 if it is bfloat16.
  static Tensor as_wide(const Tensor& input) {
    if (input.scalar_type() != kBFloat16 || input.dim() == 0) return input;
    return at::empty({1}, input.options().dtype(kFloat32)).expand(input.sizes());
  }

  Tensor normalized(const Tensor& input, CallContext& context, bool relu) const {
    const auto [gamma, beta, moving_mean, moving_variance] = variables(as_wide(input), context);
    const bool joint = options_.synchronized && context.num_replicas() > 1;
    const bool trains = context.trains(identity());
    if (trains && !joint && input.numel() > 0) {
      return normalized_here(input, gamma, beta, moving_mean, moving_variance, relu);
    }
    const Tensor wide = internal::widened(input);
    const Moments used = trains ? moments(wide, moving_mean, moving_variance, joint, context)
                                : Moments{.mean = moving_mean, .variance = moving_variance};
    Tensor factor = (used.variance + options_.epsilon).rsqrt();
    if (gamma.defined()) factor = factor * gamma;
    Tensor output = (wide - used.mean) * factor;
    if (beta.defined()) output = output + beta;
    if (input.scalar_type() == kBFloat16) output = internal::narrowed(output);
    return relu ? internal::relu_in_place(std::move(output)) : output;
  }

  const Tensor& moving(int slot, const char* name, const Initializer& initializer,
                       const Tensor& input, CallContext& context) const {
    return context.variable(identity(), slot, [&] {
      // A value computed over all replicas is valid on a replica without rows too.
      return VariableSpec{.name = name,
                          .shape = {input.size(-1)},
                          .dtype = input.scalar_type(),
                          .initializer = initializer,
                          .trainable = false,
                          .synchronization = VariableSynchronization::kOnRead,
                          .aggregation = VariableAggregation::kMean,
                          .written_without_rows = options_.synchronized};
    });
  }

  // Normalizes by the rows of this replica alone, for which LibTorch has one pass over memory.
  Tensor normalized_here(const Tensor& input, const Tensor& gamma, const Tensor& beta,
                         const Tensor& moving_mean, const Tensor& moving_variance,
                         bool relu) const {
    // Its kernels for images whose channels are last; one image, as high as there are rows.
    const Tensor image = input.reshape({1, -1, 1, input.size(-1)}).permute({0, 3, 1, 2});
    auto [output, mean, inverse_deviation] =
        at::native_batch_norm(image, gamma, beta, /*running_mean=*/{}, /*running_var=*/{},
                              /*training=*/true, /*momentum=*/0, options_.epsilon);
    move(moving_mean, mean);
    move(moving_variance, (inverse_deviation.detach().pow(-2) - options_.epsilon).clamp_min(0));
    // In front of the views, through which autograd would have to copy.
    if (relu) output = internal::relu_in_place(std::move(output));
    return output.permute({0, 2, 3, 1}).reshape(input.sizes());
  }

  // Returns the moments of the rows, which move the moving ones.
  Moments moments(const Tensor& input, const Tensor& moving_mean, const Tensor& moving_variance,
                  bool joint, CallContext& context) const {
    Moments used = moments_of(input.reshape({-1, input.size(-1)}));
    if (joint) used = moments_over_replicas(used, context);
    if (used.count > 0) {
      move(moving_mean, used.mean);
      move(moving_variance, used.variance);
    }
    return used;
  }

  void move(const Tensor& moving, const Tensor& value) const {
    torch::NoGradGuard no_grad;
    Tensor(moving).mul_(options_.momentum).add_(value, 1 - options_.momentum);
  }

  BatchNormalizationOptions options_;
};

}  // namespace

Layer BatchNormalization(BatchNormalizationOptions options) {
  const std::string title = internal::titled("BatchNormalization", options.name);
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    throw invalid_argument(fmt::format("{}: momentum is {}", title, options.momentum),
                           "momentum must be between 0 and 1");
  }
  if (!std::isfinite(options.epsilon) || options.epsilon <= 0) {
    throw invalid_argument(fmt::format("{}: epsilon is {}", title, options.epsilon),
                           "epsilon must be finite and above 0");
  }
  return Layer(std::make_shared<BatchNormalizationImpl>(std::move(options)));
}

}  // namespace muster::inline v0_1
