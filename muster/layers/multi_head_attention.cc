#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/layers/attention.h"
#include "muster/layers/internal/attention_axes.h"
#include "muster/layers/internal/attention_inputs.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/dot_product_attention.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/weights.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class MultiHeadAttentionImpl final : public LayerImpl {
 public:
  MultiHeadAttentionImpl(int64_t num_heads, int64_t key_dim, MultiHeadAttentionOptions options)
      : LayerImpl("multi_head_attention", options.name),
        num_heads_(num_heads),
        key_dim_(key_dim),
        options_(std::move(options)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const bool is_pair = inputs.tensors.size() >= 2;
    const std::vector<int64_t>& axes = options_.attention_axes;
    const bool over_steps = axes.empty() || (axes.size() == 1 && axes[0] == 1);
    if (!is_pair || (inputs.tensors[0].dim() <= 3 && over_steps)) {
      return attend(inputs, is_pair ? inputs.tensors[0].size(0) : 0, context);
    }
    const internal::AttentionAxes shown(axes, inputs, context, identity(), num_heads_);
    check_causal(inputs.tensors[0], context);
    LayerOutputs outputs = attend(shown.sequences(), inputs.tensors[0].size(0), context);
    outputs.tensors[0] = shown.in_axes(outputs.tensors[0]);
    if (options_.return_attention_scores)
      outputs.tensors[1] = shown.scores_in_axes(outputs.tensors[1]);
    return outputs;
  }

  LayerPrecision precision() const override { return LayerPrecision::kBfloat16; }

 private:
  // Attends over the steps of [batch, steps, features]; penalties are divided by `batch`.
  LayerOutputs attend(const LayerInputs& inputs, int64_t batch, CallContext& context) const {
    const internal::AttentionInputs given = internal::attention_inputs(
        inputs, context, identity(), options_.use_causal_mask, /*takes_mask=*/true);
    const int64_t value_dim = options_.value_dim.value_or(key_dim_);
    const Tensor query = project(given.query, 0, "query", key_dim_, context);
    const Tensor key = project(given.key, 2, "key", key_dim_, context);
    const Tensor value = project(given.value, 4, "value", value_dim, context);
    for (const Tensor& each : {query, key, value}) penalize(each, batch, context);
    const Shape scores{query.size(0), num_heads_, query.size(1), key.size(1)};
    // The dtype of scores: softmax is of float32 also for inputs of bfloat16.
    const Tensor score = internal::widened(at::empty({0}, query.options()));
    Tensor offset;
    const Tensor counts = counts_of(given, scores, context);
    if (counts.defined()) offset = internal::score_offset(counts, score);
    Tensor dropout;
    if (context.training() && options_.dropout > 0) {
      dropout = internal::drop_mask(score, scores, context.random_key(identity()), options_.dropout,
                                    1 / (1 - options_.dropout));
    }
    const internal::AttentionResult result = internal::dot_product_attention(
        query, key, value, 1 / std::sqrt(static_cast<double>(key_dim_)), offset, dropout,
        options_.return_attention_scores,
        given.causal_alone && !given.query_mask.defined() && !given.attention_mask.defined());
    LayerOutputs outputs{.tensors = {joined(result.output, given.query, context)}};
    // Once as a product, and once as the layer's output.
    for (int i = 0; i < 2; ++i) penalize(outputs.tensors[0], batch, context);
    if (given.query_mask.defined()) outputs.masks = {given.query_mask};
    if (options_.return_attention_scores) {
      outputs.tensors.push_back(result.weights);
      penalize(result.weights, batch, context);
      if (!outputs.masks.empty()) outputs.masks.emplace_back();
    }
    return outputs;
  }

  // One axis has an order of steps.
  void check_causal(const Tensor& query, CallContext& context) const {
    const size_t axes = options_.attention_axes.size();
    if (!options_.use_causal_mask || axes == 1) return;
    internal::refuse_input(context, identity(), "one attention axis with use_causal_mask", query,
                           "name it: attention_axes = {1}");
  }

  // `tensor` is of as many examples as `batch`, or of several sequences for each.
  void penalize(const Tensor& tensor, int64_t batch, CallContext& context) const {
    if (!options_.activity_regularizer) return;
    const bool same = tensor.size(0) == batch;
    context.add_activity_loss(options_.activity_regularizer,
                              same ? tensor : tensor.reshape({batch, tensor.numel() / batch}));
  }

  const Initializer& initializer(const std::string& variable, const Initializer& otherwise) const {
    const auto own = options_.variable_initializers.find(variable);
    return own == options_.variable_initializers.end() ? otherwise : own->second;
  }

  // Computes [batch, steps, in] x [in, heads, width] + [heads, width].
  Tensor project(const Tensor& input, int slot, const std::string& name, int64_t width,
                 CallContext& context) const {
    const Tensor kernel = internal::weight(
        context, identity(), slot, (name + "/kernel").c_str(), {input.size(2), num_heads_, width},
        input, initializer(name + "/kernel", options_.kernel_initializer),
        options_.kernel_regularizer, options_.kernel_constraint);
    if (kernel.size(0) != input.size(2)) {
      internal::refuse_input(context, identity(),
                             fmt::format("a {} [batch, steps, {}]", name, kernel.size(0)), input,
                             "a layer is called with as many features as at its first call");
    }
    Tensor bias;
    if (options_.use_bias) {
      bias = internal::weight(context, identity(), slot + 1, (name + "/bias").c_str(),
                              {num_heads_, width}, input,
                              initializer(name + "/bias", options_.bias_initializer),
                              options_.bias_regularizer, options_.bias_constraint)
                 .flatten();
    }
    return internal::affine(input.flatten(0, 1), kernel.flatten(1), bias)
        .view({input.size(0), input.size(1), num_heads_, width});
  }

  // Brings the heads [batch, T, heads, value_dim] together.
  Tensor joined(const Tensor& heads, const Tensor& query, CallContext& context) const {
    const Shape last = options_.output_shape.empty() ? Shape{query.size(2)} : options_.output_shape;
    Shape shape{num_heads_, heads.size(3)};
    shape.insert(shape.end(), last.begin(), last.end());
    const Tensor kernel =
        internal::weight(context, identity(), 6, "attention_output/kernel", shape, query,
                         initializer("attention_output/kernel", options_.kernel_initializer),
                         options_.kernel_regularizer, options_.kernel_constraint)
            .reshape({num_heads_ * heads.size(3), c10::multiply_integers(last)});
    Tensor bias;
    if (options_.use_bias) {
      bias = internal::weight(context, identity(), 7, "attention_output/bias", last, query,
                              initializer("attention_output/bias", options_.bias_initializer),
                              options_.bias_regularizer, options_.bias_constraint)
                 .flatten();
    }
    Shape result{query.size(0), query.size(1)};
    result.insert(result.end(), last.begin(), last.end());
    return internal::affine(heads.flatten(2).flatten(0, 1), kernel, bias).view(result);
  }

  // Returns the scores [batch, heads, T, S] that count, or nothing.
  Tensor counts_of(const internal::AttentionInputs& given, const Shape& scores,
                   CallContext& context) const {
    Tensor counts = given.counts;
    if (given.query_mask.defined()) {
      const Tensor rows = given.query_mask.unsqueeze(2);
      counts = counts.defined() ? counts.logical_and(rows) : rows;
    }
    if (counts.defined()) counts = counts.unsqueeze(1);
    Tensor mask = given.attention_mask;
    if (!mask.defined()) return counts;
    if (mask.dim() == 3) mask = mask.unsqueeze(1);
    bool fits = mask.dim() == 4;
    for (size_t i = 0; fits && i < scores.size(); ++i) {
      const int64_t size = mask.size(static_cast<int64_t>(i));
      fits = size == 1 || size == scores[i];
    }
    if (!fits) {
      internal::refuse_input(
          context, identity(),
          fmt::format("an attention_mask that stretches to {}", describe(scores)),
          given.attention_mask, "it is [batch, T, S] or [batch, heads, T, S]");
    }
    return counts.defined() ? counts.logical_and(mask) : mask;
  }

  int64_t num_heads_, key_dim_;
  MultiHeadAttentionOptions options_;
};

void check_variables(const std::string& layer, const MultiHeadAttentionOptions& options) {
  std::vector<std::string> names;
  for (const std::string part : {"query", "key", "value", "attention_output"}) {
    names.push_back(part + "/kernel");
    if (options.use_bias) names.push_back(part + "/bias");
  }
  for (const auto& [variable, initializer] : options.variable_initializers) {
    if (std::find(names.begin(), names.end(), variable) == names.end())
      throw unknown_name(layer, "variable", variable, names);
  }
}

}  // namespace

Layer MultiHeadAttention(int64_t num_heads, int64_t key_dim, MultiHeadAttentionOptions options) {
  const std::string layer = internal::titled("MultiHeadAttention", options.name);
  internal::check_positive(layer, "num_heads", num_heads);
  internal::check_positive(layer, "key_dim", key_dim);
  if (options.value_dim) internal::check_positive(layer, "value_dim", *options.value_dim);
  for (const int64_t size : options.output_shape) {
    internal::check_positive(layer, "output_shape", size);
  }
  internal::check_rate(layer, options.dropout, "dropout");
  check_variables(layer, options);
  std::vector<int64_t>& axes = options.attention_axes;
  const std::string given = describe(axes);
  std::sort(axes.begin(), axes.end());
  if (!axes.empty() &&
      (axes.front() < 1 || std::adjacent_find(axes.begin(), axes.end()) != axes.end())) {
    throw invalid_argument(
        fmt::format("{}: attention_axes is {}", layer, given),
        "axes are counted from the batch, which is 0 and not allowed; name each once");
  }
  return Layer(std::make_shared<MultiHeadAttentionImpl>(num_heads, key_dim, std::move(options)));
}

}  // namespace muster::inline v0_1
