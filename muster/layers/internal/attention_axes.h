// Attention over other axes than the steps of a sequence: the axes attended over are shown as the
// steps of sequences, and all other axes as the batch. Thread safety: immutable; functions with a
// context, of the thread it belongs to.
#pragma once

#include <vector>

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

class AttentionAxes {
 public:
  // `inputs` are {query, value}, {query, value, key}, or these and a bool attention_mask, of shapes
  // [batch, axes..., features]. `axes` are counted from the batch; empty: all between the batch and
  // the features. Throws InvalidArgument for axes that do not exist, for tensors of several ranks,
  // for other axes that differ in size, for masks of the inputs and an attention_mask that does not
  // stretch to [batch, other axes..., axes of the query..., axes of the value...], where heads may
  // follow the other axes.
  AttentionAxes(const std::vector<int64_t>& axes, const LayerInputs& inputs, CallContext& context,
                const LayerIdentity& layer, int64_t num_heads);

  // The same as [batch * other axes, steps, features], and the mask for these.
  const LayerInputs& sequences() const { return sequences_; }
  // Shows [batch * other axes, steps, ...] of the query in its axes, [batch, axes..., ...].
  Tensor in_axes(const Tensor& output) const;
  // Shows [batch * other axes, heads, T, S] as [batch, other axes..., heads, axes of the query...,
  // axes of the value...].
  Tensor scores_in_axes(const Tensor& scores) const;

 private:
  Tensor as_sequence(const Tensor& tensor) const;
  Tensor mask_of_sequences(const Tensor& mask, int64_t num_heads, CallContext& context,
                           const LayerIdentity& layer) const;

  std::vector<int64_t> axes_;   // attended over
  std::vector<int64_t> order_;  // the batch, the other axes, those attended over, the features
  Shape outer_;                 // sizes of the batch and the other axes
  Shape query_, value_;         // sizes of the axes attended over
  LayerInputs sequences_;
};

}  // namespace muster::inline v0_1::internal
