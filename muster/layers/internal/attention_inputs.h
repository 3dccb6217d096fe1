// The checked inputs of attention layers. Thread safety: functions of the thread the context
// belongs to.
#pragma once

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

struct AttentionInputs {
  Tensor query{};           // [batch, T, ...]
  Tensor value{};           // [batch, S, ...]
  Tensor key{};             // [batch, S, ...]
  Tensor attention_mask{};  // bool [batch, T, S] or [batch, heads, T, S]; or undefined
  // Bool, [batch or 1, T or 1, S]: the places that masks and causality let through; or undefined.
  Tensor counts{};
  Tensor query_mask{};  // [batch, T]; or undefined
  // `counts` is a causal mask of T = S, and nothing else.
  bool causal_alone = false;
};

// Returns whether the last of {query, value}, {query, value, key} or these and an attention_mask is
// that mask, which is bool. Throws InvalidArgument for one of another dtype: for integers, for a
// fourth tensor, and for a third one that has the shape of a mask and not the width of a key.
bool has_attention_mask(const std::vector<Tensor>& given, CallContext& context,
                        const LayerIdentity& layer);

// Throws InvalidArgument as attention.h documents. `takes_mask` allows a bool tensor after the
// others.
AttentionInputs attention_inputs(const LayerInputs& inputs, CallContext& context,
                                 const LayerIdentity& layer, bool causal, bool takes_mask);

// Returns the addend of scores: 0 if `counts` is true, and -1e9 elsewhere, as Keras does; so a step
// that sees nothing gets the mean of all.
Tensor score_offset(const Tensor& counts, const Tensor& like);

}  // namespace muster::inline v0_1::internal
