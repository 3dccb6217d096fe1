#include "muster/layers/internal/attention_axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/layers/internal/attention_inputs.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

Shape joined(Shape first, const Shape& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Shape sizes_at(const Tensor& tensor, const std::vector<int64_t>& axes) {
  Shape sizes;
  for (const int64_t axis : axes) sizes.push_back(tensor.size(axis));
  return sizes;
}

}  // namespace

AttentionAxes::AttentionAxes(const std::vector<int64_t>& axes, const LayerInputs& inputs,
                             CallContext& context, const LayerIdentity& layer, int64_t num_heads)
    : axes_(axes) {
  const Tensor& query = inputs.tensors[0];
  const int64_t features = query.dim() - 1;
  const bool has_mask = has_attention_mask(inputs.tensors, context, layer);
  const size_t count = inputs.tensors.size() - (has_mask ? 1 : 0);
  for (int64_t axis = 1; axes.empty() && axis < features; ++axis) axes_.push_back(axis);
  if (features < 2 || axes_.back() >= features) {
    refuse_input(context, layer,
                 fmt::format("a query [batch, axes..., features] with the axes {}", describe(axes)),
                 query, "attention_axes are axes between the batch and the features");
  }
  std::vector<int64_t> outer{0};
  for (int64_t axis = 1; axis < features; ++axis) {
    if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) outer.push_back(axis);
  }
  order_ = joined(joined(outer, axes_), {features});
  outer_ = sizes_at(query, outer);
  query_ = sizes_at(query, axes_);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& each = inputs.tensors[i];
    if (each.dim() != query.dim() || sizes_at(each, outer) != outer_) {
      refuse_input(context, layer,
                   fmt::format("a value and a key with the query's axes {} except {}",
                               describe(query), describe(axes_)),
                   each);
    }
    sequences_.tensors.push_back(as_sequence(each));
  }
  value_ = sizes_at(inputs.tensors[1], axes_);
  for (const Tensor& mask : inputs.masks) {
    if (!mask.defined()) continue;
    refuse_input(context, layer, "tensors without masks", mask,
                 "a mask is of the steps of [batch, steps, features]; give an attention_mask");
  }
  if (has_mask) {
    sequences_.tensors.push_back(
        mask_of_sequences(inputs.tensors.back(), num_heads, context, layer));
  }
  sequences_.state = inputs.state;
}

Tensor AttentionAxes::as_sequence(const Tensor& tensor) const {
  return tensor.permute(order_).reshape({c10::multiply_integers(outer_),
                                         c10::multiply_integers(sizes_at(tensor, axes_)),
                                         tensor.size(-1)});
}

Tensor AttentionAxes::mask_of_sequences(const Tensor& mask, int64_t num_heads, CallContext& context,
                                        const LayerIdentity& layer) const {
  const Shape pairs = joined(query_, value_);
  const bool of_heads = mask.dim() == static_cast<int64_t>(outer_.size() + 1 + pairs.size());
  const Shape wanted = joined(of_heads ? joined(outer_, {num_heads}) : outer_, pairs);
  bool fits = mask.dim() == static_cast<int64_t>(wanted.size());
  for (size_t i = 0; fits && i < wanted.size(); ++i) {
    const int64_t size = mask.size(static_cast<int64_t>(i));
    fits = size == 1 || size == wanted[i];
  }
  if (!fits) {
    refuse_input(context, layer,
                 fmt::format("an attention_mask that stretches to {}", describe(wanted)), mask,
                 "its axes are the batch, those not attended over, maybe the heads, those of the "
                 "query and those of the value");
  }
  Shape shape{c10::multiply_integers(outer_)};
  if (of_heads) shape.push_back(num_heads);
  shape.push_back(c10::multiply_integers(query_));
  shape.push_back(c10::multiply_integers(value_));
  return mask.expand(wanted).reshape(shape);
}

Tensor AttentionAxes::in_axes(const Tensor& output) const {
  const auto behind = output.sizes().slice(2);
  const Tensor split =
      output.reshape(joined(joined(outer_, query_), Shape(behind.begin(), behind.end())));
  // Back to the order of the query's axes.
  std::vector<int64_t> places(static_cast<size_t>(split.dim()));
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i + 1 < order_.size(); ++i)
    places[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
  return split.permute(places);
}

Tensor AttentionAxes::scores_in_axes(const Tensor& scores) const {
  return scores.reshape(joined(joined(joined(outer_, {scores.size(1)}), query_), value_));
}

}  // namespace muster::inline v0_1::internal
