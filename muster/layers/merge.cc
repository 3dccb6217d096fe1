#include "muster/layers/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/fused_relu.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

std::string describe_all(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor& tensor : tensors) text += (text.empty() ? "" : ", ") + describe(tensor);
  return text;
}

[[noreturn]] void refuse(CallContext& context, const LayerIdentity& layer,
                         const std::string& expected, const std::vector<Tensor>& given) {
  throw invalid_argument(fmt::format("layer {}: expected {}, was given {}", context.name_of(layer),
                                     expected, describe_all(given)));
}

// Checks of all layers of several tensors.
void check_tensors(CallContext& context, const LayerIdentity& layer, const LayerInputs& inputs,
                   size_t exactly) {
  context.name_of(layer);
  const std::vector<Tensor>& tensors = inputs.tensors;
  if (tensors.empty() || (exactly > 0 && tensors.size() != exactly)) {
    throw invalid_argument(
        fmt::format("layer {}: expected {} tensors, was given {}", context.name_of(layer),
                    exactly > 0 ? std::to_string(exactly) : "one or more", tensors.size()),
        "call it with LayerInputs{.tensors = {a, b}}");
  }
  if (!inputs.state.empty()) {
    throw invalid_argument(
        fmt::format("layer {}: was given a state, and has none", context.name_of(layer)),
        "give the state to the recurrent layer it belongs to");
  }
  for (const Tensor& each : tensors) {
    if (each.dim() < 1 || each.size(0) != tensors[0].size(0) ||
        each.scalar_type() != tensors[0].scalar_type()) {
      refuse(context, layer, "tensors of one batch and one dtype", tensors);
    }
  }
}

// Returns the places that all masks let through, or nothing if there is none.
std::vector<Tensor> masks_of_all(const LayerInputs& inputs) {
  Tensor joint;
  for (const Tensor& mask : inputs.masks) {
    if (!mask.defined()) continue;
    joint = joint.defined() ? at::logical_and(joint, mask) : mask;
  }
  return joint.defined() ? std::vector<Tensor>{joint} : std::vector<Tensor>{};
}

using Merge = std::function<Tensor(const std::vector<Tensor>&)>;

class ElementwiseImpl final : public LayerImpl, public internal::FusesRelu {
 public:
  ElementwiseImpl(const char* class_name, size_t exactly, Merge merge, std::string name)
      : LayerImpl(class_name, std::move(name)), exactly_(exactly), merge_(std::move(merge)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    check_tensors(context, identity(), inputs, exactly_);
    int64_t axes = 0;
    for (const Tensor& each : inputs.tensors) axes = std::max(axes, each.dim());
    std::vector<Tensor> tensors = inputs.tensors;
    for (Tensor& each : tensors) {
      while (each.dim() < axes) each = each.unsqueeze(1);
    }
    for (int64_t axis = 1; axis < axes; ++axis) {
      int64_t size = 1;
      for (const Tensor& each : tensors) {
        if (each.size(axis) == 1 || each.size(axis) == size) continue;
        if (size != 1) refuse(context, identity(), "shapes that fit", inputs.tensors);
        size = each.size(axis);
      }
    }
    return {.tensors = {merge_(tensors)}, .masks = masks_of_all(inputs)};
  }

  LayerOutputs call_with_relu(const LayerInputs& inputs, CallContext& context) const override {
    LayerOutputs outputs = call(inputs, context);
    // One tensor alone may be given as it came.
    Tensor& joined = outputs.tensors[0];
    joined =
        inputs.tensors.size() > 1 ? internal::relu_in_place(std::move(joined)) : at::relu(joined);
    return outputs;
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  size_t exactly_;
  Merge merge_;
};

class ConcatenateImpl final : public LayerImpl {
 public:
  ConcatenateImpl(int64_t axis, std::string name)
      : LayerImpl("concatenate", std::move(name)), axis_(axis) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    check_tensors(context, identity(), inputs, /*exactly=*/0);
    const Tensor& first = inputs.tensors[0];
    const int64_t axis = internal::check_axis(context, identity(), "axis", axis_, first);
    bool fits = axis > 0;
    for (const Tensor& each : inputs.tensors) {
      fits = fits && each.dim() == first.dim();
      for (int64_t i = 0; fits && i < first.dim(); ++i) {
        fits = i == axis || each.size(i) == first.size(i);
      }
    }
    if (!fits) {
      refuse(context, identity(),
             fmt::format("the same sizes except along axis {}, which must not be the batch", axis),
             inputs.tensors);
    }
    return {.tensors = {at::cat(inputs.tensors, axis)}, .masks = joined_masks(inputs, axis)};
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  static std::vector<Tensor> joined_masks(const LayerInputs& inputs, int64_t axis) {
    int64_t axes = 0;
    for (const Tensor& mask : inputs.masks) axes = std::max(axes, mask.defined() ? mask.dim() : 0);
    if (axis >= axes) return masks_of_all(inputs);
    std::vector<Tensor> masks;
    for (size_t i = 0; i < inputs.tensors.size(); ++i) {
      const auto shape = inputs.tensors[i].sizes().slice(0, static_cast<size_t>(axes));
      Tensor mask = inputs.masks[i].defined()
                        ? inputs.masks[i]
                        : at::ones(shape, inputs.tensors[i].options().dtype(at::kBool));
      while (mask.dim() < axes) mask = mask.unsqueeze(-1);
      masks.push_back(mask.expand(shape));
    }
    return {at::cat(masks, axis)};
  }

  int64_t axis_;
};

class DotImpl final : public LayerImpl {
 public:
  DotImpl(std::array<int64_t, 2> axes, DotOptions options)
      : LayerImpl("dot", std::move(options.name)), axes_(axes), normalize_(options.normalize) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    check_tensors(context, identity(), inputs, /*exactly=*/2);
    std::array<Tensor, 2> rows;  // [batch, ..., k]
    for (size_t i = 0; i < 2; ++i) {
      const Tensor& input = inputs.tensors[i];
      internal::check_floating(context, identity(), input);
      const int64_t axis = internal::check_axis(context, identity(), "axes", axes_[i], input);
      if (axis == 0) refuse(context, identity(), "an axis that is not the batch", inputs.tensors);
      rows[i] = input.movedim(axis, -1);
      if (normalize_) {
        rows[i] = rows[i] * rows[i].square().sum(-1, /*keepdim=*/true).clamp_min(1e-12).rsqrt();
      }
    }
    const int64_t batch = rows[0].size(0), length = rows[0].size(-1);
    if (rows[1].size(-1) != length) {
      refuse(context, identity(),
             fmt::format("the same size in axis {} of the first and axis {} of the second",
                         axes_[0], axes_[1]),
             inputs.tensors);
    }
    Shape shape{batch};
    std::array<int64_t, 2> counts{1, 1};
    for (size_t i = 0; i < 2; ++i) {
      for (int64_t axis = 1; axis + 1 < rows[i].dim(); ++axis) {
        shape.push_back(rows[i].size(axis));
        counts[i] *= rows[i].size(axis);
      }
    }
    if (shape.size() == 1) shape.push_back(1);
    const Tensor left = rows[0].reshape({batch, counts[0], length});
    const Tensor right = rows[1].reshape({batch, counts[1], length});
    return {.tensors = {internal::batch_product(left, right.transpose(1, 2)).reshape(shape)}};
  }

  LayerPrecision precision() const override {
    return normalize_ ? LayerPrecision::kWidened : LayerPrecision::kBfloat16;
  }

 private:
  std::array<int64_t, 2> axes_;
  bool normalize_;
};

// Applies `function` to the first two, then to the result and the next one.
Tensor folded(const std::vector<Tensor>& tensors,
              Tensor (*function)(const Tensor&, const Tensor&)) {
  Tensor result = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) result = function(result, tensors[i]);
  return result;
}

Tensor sum_of(const std::vector<Tensor>& tensors) {
  return folded(tensors, [](const Tensor& a, const Tensor& b) { return a + b; });
}

Layer elementwise(const char* class_name, size_t exactly, Merge merge, std::string name) {
  return Layer(
      std::make_shared<ElementwiseImpl>(class_name, exactly, std::move(merge), std::move(name)));
}

}  // namespace

Layer Add(std::string name) { return elementwise("add", 0, sum_of, std::move(name)); }

Layer Multiply(std::string name) {
  const auto product = [](const std::vector<Tensor>& tensors) {
    return folded(tensors, [](const Tensor& a, const Tensor& b) { return a * b; });
  };
  return elementwise("multiply", 0, product, std::move(name));
}

Layer Average(std::string name) {
  const auto mean = [](const std::vector<Tensor>& tensors) {
    return sum_of(tensors) / static_cast<double>(tensors.size());
  };
  return elementwise("average", 0, mean, std::move(name));
}

Layer Maximum(std::string name) {
  // Of equal ones the first has the gradient, and NaN stays NaN.
  const auto maximum = [](const std::vector<Tensor>& tensors) {
    return folded(tensors, [](const Tensor& a, const Tensor& b) {
      return at::where(at::logical_or(a >= b, a != a), a, b);
    });
  };
  return elementwise("maximum", 0, maximum, std::move(name));
}

Layer Minimum(std::string name) {
  const auto minimum = [](const std::vector<Tensor>& tensors) {
    return folded(tensors, [](const Tensor& a, const Tensor& b) {
      return at::where(at::logical_or(a <= b, a != a), a, b);
    });
  };
  return elementwise("minimum", 0, minimum, std::move(name));
}

Layer Subtract(std::string name) {
  const auto difference = [](const std::vector<Tensor>& tensors) {
    return tensors[0] - tensors[1];
  };
  return elementwise("subtract", 2, difference, std::move(name));
}

Layer Concatenate(int64_t axis, std::string name) {
  if (axis == 0) {
    throw invalid_argument(internal::titled("Concatenate", name) + ": axis is 0",
                           "axis must not be 0, which is the batch");
  }
  return Layer(std::make_shared<ConcatenateImpl>(axis, std::move(name)));
}

Layer Dot(int64_t axis, DotOptions options) {
  return Dot(std::array<int64_t, 2>{axis, axis}, std::move(options));
}

Layer Dot(std::array<int64_t, 2> axes, DotOptions options) {
  for (const int64_t axis : axes) {
    if (axis != 0) continue;
    throw invalid_argument(
        fmt::format("{}: axes is {}, {}", internal::titled("Dot", options.name), axes[0], axes[1]),
        "axes must not be 0, which is the batch");
  }
  return Layer(std::make_shared<DotImpl>(axes, std::move(options)));
}

}  // namespace muster::inline v0_1
