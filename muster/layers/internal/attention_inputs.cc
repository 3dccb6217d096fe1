#include "muster/layers/internal/attention_inputs.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

[[noreturn]] void refuse_tensors(CallContext& context, const LayerIdentity& layer,
                                 const std::string& expected, const std::vector<Tensor>& given,
                                 const std::string& hint = {}) {
  std::string shapes;
  for (const Tensor& each : given) shapes += (shapes.empty() ? "" : ", ") + describe(each);
  throw invalid_argument(fmt::format("layer {}: expected {}, was given {}", context.name_of(layer),
                                     expected, shapes.empty() ? "nothing" : shapes),
                         hint);
}

// The combination of two masks, of which each may be undefined.
Tensor both(const Tensor& one, const Tensor& other) {
  if (!one.defined() || !other.defined()) return one.defined() ? one : other;
  return one.logical_and(other);
}

constexpr const char* kMaskIsBool = "attention_mask is bool, true where it counts: mask.to(kBool)";

// Whether a third tensor has the shape of scores [batch, T, S] rather than the shape of a key
// [batch, S, width]. A key is most often as wide as the value, which it is by default.
bool looks_like_mask(const std::vector<Tensor>& given) {
  const Tensor &query = given[0], &value = given[1], &third = given[2];
  if (query.dim() != 3 || value.dim() != 3) return false;
  if (third.dim() != 3) return third.dim() == 4;
  return third.size(1) == query.size(1) && third.size(2) == value.size(1) &&
         third.size(2) != value.size(2);
}

}  // namespace

bool has_attention_mask(const std::vector<Tensor>& given, CallContext& context,
                        const LayerIdentity& layer) {
  if (given.size() < 3) return false;
  const Tensor& last = given.back();
  if (last.scalar_type() == at::kBool) return true;
  if (!last.is_floating_point() || given.size() > 3)
    refuse_input(context, layer, "a bool attention_mask as the last tensor", last, kMaskIsBool);
  // Sizes that are made up to try shapes say nothing.
  if (!context.for_shapes_alone() && looks_like_mask(given)) {
    refuse_input(context, layer,
                 fmt::format("a key with the features of the value {}, or a bool attention_mask",
                             describe(given[1])),
                 last,
                 std::string(kMaskIsBool) +
                     "; if a key is as wide as the value has steps, add an attention_mask of ones "
                     "after it: torch::ones({1, 1, 1}, kBool)");
  }
  return false;
}

AttentionInputs attention_inputs(const LayerInputs& inputs, CallContext& context,
                                 const LayerIdentity& layer, bool causal, bool takes_mask) {
  context.name_of(layer);
  const std::vector<Tensor>& given = inputs.tensors;
  size_t count = given.size();
  if (takes_mask && has_attention_mask(given, context, layer)) --count;
  if (!takes_mask && count > 2 && !given.back().is_floating_point()) {
    refuse_tensors(context, layer, "{query, value} or {query, value, key}", given,
                   "it takes no attention_mask: LayerInputs.masks say which steps count, and "
                   "MultiHeadAttention takes one");
  }
  if (count < 2 || count > 3) {
    refuse_tensors(context, layer, "{query, value} or {query, value, key}", given,
                   "call it with LayerInputs{.tensors = {query, value}}");
  }
  if (!inputs.state.empty()) {
    throw invalid_argument(
        fmt::format("layer {}: was given a state, and has none", context.name_of(layer)),
        "give the state to the recurrent layer it belongs to");
  }
  for (size_t i = 0; i < count; ++i) {
    check_dtype(context, layer, given[i]);
    if (given[i].dim() != 3 || given[i].size(0) != given[0].size(0) ||
        given[i].scalar_type() != given[0].scalar_type()) {
      refuse_tensors(context, layer, "tensors [batch, steps, features] of one batch and one dtype",
                     given);
    }
  }
  AttentionInputs checked{given[0], given[1], given[count - 1], {}, {}, {}};
  if (checked.key.size(1) != checked.value.size(1)) {
    refuse_tensors(context, layer, "a value and a key with the same steps", given);
  }
  if (count < given.size()) checked.attention_mask = given.back();
  for (size_t i = 0; i < inputs.masks.size(); ++i) {
    const Tensor& mask = inputs.masks[i];
    if (!mask.defined() || i >= count) continue;
    if (mask.dim() != 2) refuse_tensors(context, layer, "masks [batch, steps]", inputs.masks);
    if (i == 0) checked.query_mask = mask;
    if (i > 0) checked.counts = both(checked.counts, mask.unsqueeze(1));
  }
  if (causal) {
    checked.causal_alone = !checked.counts.defined() && given[0].size(1) == checked.key.size(1);
    const Tensor seen =
        at::ones({1, given[0].size(1), checked.key.size(1)}, given[0].options().dtype(at::kBool));
    checked.counts = both(checked.counts, seen.tril());
  }
  return checked;
}

Tensor score_offset(const Tensor& counts, const Tensor& like) {
  return (1 - counts.to(like.scalar_type())) * -1e9;
}

}  // namespace muster::inline v0_1::internal
