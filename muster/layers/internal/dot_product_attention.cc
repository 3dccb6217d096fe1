#include "muster/layers/internal/dot_product_attention.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <utility>

#include "muster/layers/internal/bfloat16.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/thread_ranges.h"

namespace muster::inline v0_1::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

AttentionResult composed_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                   double scale, const Tensor& offset, const Tensor& dropout) {
  // Between products of bfloat16 lies float32.
  const bool narrow = query.scalar_type() == kBFloat16;
  const Tensor left = (narrow ? query : query * scale).transpose(1, 2);
  Tensor scores = widened(batch_product(left, key.permute({0, 2, 3, 1})));
  if (narrow) scores = scores * scale;
  if (offset.defined()) scores = scores + offset;
  const Tensor weights = at::softmax(scores, -1);
  const Tensor used = dropout.defined() ? weights * dropout : weights;
  return {batch_product(narrow ? narrowed(used) : used, value.transpose(1, 2)).transpose(1, 2),
          weights};
}

// Example by example: the intermediate results of an example stay in the cache.
struct DotProductAttention : public torch::autograd::Function<DotProductAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key,
                        const Tensor& value, double scale, const c10::optional<Tensor>& offset) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    const int64_t batch = query.size(0), heads = query.size(2);
    const Tensor weights = at::empty({batch, heads, query.size(1), key.size(1)}, query.options());
    const Tensor output = at::empty({batch, query.size(1), heads, value.size(3)}, query.options());
    const Tensor offsets = offset ? offset->expand(weights.sizes()) : Tensor();
    over_ranges(batch, 1, [&](int64_t begin, int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView plain_too;  // a thread has its own
      for (int64_t b = begin; b < end; ++b) {
        Tensor scores = weights.select(0, b), result = heads_of(output, b);  // [heads, T, ...]
        at::bmm_out(scores, heads_of(query, b) * scale, heads_of(key, b).transpose(1, 2));
        if (offset) scores.add_(offsets.select(0, b));
        at::_softmax_out(scores, scores, -1, /*half_to_float=*/false);
        at::bmm_out(result, scores, heads_of(value, b));
      }
    });
    context->save_for_backward({query, key, value, offset.value_or(Tensor())});
    context->saved_data["weights"] = weights;
    context->saved_data["scale"] = scale;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const double scale = context->saved_data["scale"].toDouble();
    variable_list result(5);
    if (at::GradMode::is_enabled()) {
      derive_again(saved, scale, gradients[0], result);
      return result;
    }
    const at::AutoDispatchBelowADInplaceOrView plain;
    const Tensor &query = saved[0], &key = saved[1], &value = saved[2];
    const Tensor weights = context->saved_data["weights"].toTensor();
    for (size_t i = 0; i < 3; ++i) result[i] = at::empty(saved[i].sizes(), query.options());
    over_ranges(query.size(0), 1, [&](int64_t begin, int64_t end) {
      const at::AutoDispatchBelowADInplaceOrView plain_too;
      Tensor of_weights = at::empty(weights.sizes().slice(1), query.options());
      Tensor of_scores = at::empty(weights.sizes().slice(1), query.options());
      for (int64_t b = begin; b < end; ++b) {
        const Tensor weight = weights.select(0, b), given = heads_of(gradients[0], b);
        Tensor of_query = heads_of(result[0], b), of_key = heads_of(result[1], b),
               of_value = heads_of(result[2], b);
        at::bmm_out(of_value, weight.transpose(1, 2), given);
        at::bmm_out(of_weights, given, heads_of(value, b).transpose(1, 2));
        at::_softmax_backward_data_out(of_scores, of_weights, weight, -1, query.scalar_type());
        at::bmm_out(of_query, of_scores, heads_of(key, b));
        of_query.mul_(scale);
        at::bmm_out(of_key, of_scores.transpose(1, 2), heads_of(query, b) * scale);
      }
    });
    return result;
  }

 private:
  // Shows an example of [batch, steps, heads, width] as [heads, steps, width].
  static Tensor heads_of(const Tensor& tensor, int64_t example) {
    return tensor.select(0, example).transpose(0, 1);
  }

  static void derive_again(const variable_list& saved, double scale, const Tensor& gradient,
                           variable_list& result) {
    // A query may be made of the key's kernel; only the attention is derived here.
    variable_list own(saved.begin(), saved.begin() + 3);
    for (Tensor& each : own) each = each.view_as(each);
    const Tensor output =
        composed_attention(own[0], own[1], own[2], scale, saved[3], Tensor()).output;
    variable_list wanted;
    for (const Tensor& each : own) {
      if (each.requires_grad()) wanted.push_back(each);
    }
    const variable_list found =
        torch::autograd::grad({output}, wanted, {gradient}, /*retain_graph=*/true,
                              /*create_graph=*/true, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < own.size(); ++i) {
      if (own[i].requires_grad()) result[i] = found[next++];
    }
  }
};

}  // namespace

Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, double scale,
                       const Tensor& offset, bool causal) {
  static const auto op =
      c10::Dispatcher::singleton().findSchema({"aten::scaled_dot_product_attention", ""});
  static const bool scales =
      op && op->schema().argumentIndexWithName("scale").has_value();  // versions before 2.1 do not
  if (!scales) return {};
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op->schema().arguments()) {
    const std::string& name = argument.name();
    if (name == "query")
      stack.emplace_back(query.transpose(1, 2));
    else if (name == "key")
      stack.emplace_back(key.transpose(1, 2));
    else if (name == "value")
      stack.emplace_back(value.transpose(1, 2));
    else if (name == "attn_mask" && offset.defined() && !causal)
      stack.emplace_back(offset.to(query.scalar_type()));
    else if (name == "is_causal")
      stack.emplace_back(causal);
    else if (name == "scale")
      stack.emplace_back(scale);
    else
      stack.push_back(argument.default_value().value());
  }
  op->callBoxed(&stack);
  return stack.front().toTensor().transpose(1, 2);
}

AttentionResult dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                      double scale, const Tensor& offset, const Tensor& dropout,
                                      bool keep_weights, bool causal) {
  // Some of its kernels fail for a batch without rows, which a replica may have.
  if (query.is_cuda() && query.numel() > 0 && !keep_weights && !dropout.defined() &&
      !torch::jit::tracer::isTracing()) {
    const Tensor output = fused_attention(query, key, value, scale, offset, causal);
    if (output.defined()) return {output, Tensor()};
  }
  if (keep_weights || dropout.defined() || !query.is_cpu() || query.scalar_type() == kBFloat16 ||
      torch::jit::tracer::isTracing()) {
    return composed_attention(query, key, value, scale, offset, dropout);
  }
  const auto given = offset.defined() ? c10::optional<Tensor>(offset) : c10::nullopt;
  return {DotProductAttention::apply(query, key, value, scale, given), Tensor()};
}

}  // namespace muster::inline v0_1::internal
