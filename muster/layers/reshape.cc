#include "muster/layers/reshape.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

class ReshapeImpl final : public UnaryLayerImpl {
 public:
  ReshapeImpl(Shape target, std::string name)
      : UnaryLayerImpl("reshape", std::move(name)), target_(std::move(target)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (input.dim() < 1) internal::refuse_input(context, identity(), "[batch, ...]", input);
    // LibTorch cannot infer -1 if the batch is empty.
    int64_t elements = 1;
    for (const int64_t size : input.sizes().slice(1)) elements *= size;
    int64_t known = 1;
    for (const int64_t size : target_) known *= size == -1 ? 1 : size;
    const auto open = std::find(target_.begin(), target_.end(), -1);
    const bool fits =
        open == target_.end() ? known == elements : known > 0 && elements % known == 0;
    if (!fits) {
      internal::refuse_input(
          context, identity(),
          fmt::format("[batch, ...] with the elements of target_shape {}", describe(target_)),
          input, "the sizes after the batch must have the product of target_shape");
    }
    Shape shape{input.size(0)};
    for (const int64_t size : target_) shape.push_back(size == -1 ? elements / known : size);
    return input.reshape(shape);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  Shape target_;
};

class PermuteImpl final : public UnaryLayerImpl {
 public:
  PermuteImpl(const std::vector<int64_t>& dims, std::string name)
      : UnaryLayerImpl("permute", std::move(name)), order_{0} {
    order_.insert(order_.end(), dims.begin(), dims.end());
  }

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (input.dim() != static_cast<int64_t>(order_.size())) {
      internal::refuse_input(context, identity(), fmt::format("{} axes", order_.size()), input,
                             "dims must name each axis after the batch once");
    }
    return input.permute(order_);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  std::vector<int64_t> order_;
};

class RepeatVectorImpl final : public UnaryLayerImpl {
 public:
  RepeatVectorImpl(int64_t n, std::string name)
      : UnaryLayerImpl("repeat_vector", std::move(name)), n_(n) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (input.dim() != 2) internal::refuse_input(context, identity(), "[batch, features]", input);
    return input.unsqueeze(1).expand({input.size(0), n_, input.size(1)});
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }

 private:
  int64_t n_;
};

class FlattenImpl final : public UnaryLayerImpl {
 public:
  explicit FlattenImpl(std::string name) : UnaryLayerImpl("flatten", std::move(name)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    context.name_of(identity());
    if (input.dim() < 1) {
      internal::refuse_input(context, identity(), "[batch, ...]", input);
    }
    return input.dim() == 1 ? input.unsqueeze(1) : input.flatten(1);
  }

  LayerPrecision precision() const override { return LayerPrecision::kAsGiven; }
};

}  // namespace

Layer Reshape(std::vector<int64_t> target_shape, std::string name) {
  const auto open = std::count(target_shape.begin(), target_shape.end(), -1);
  const bool negative =
      std::any_of(target_shape.begin(), target_shape.end(), [](int64_t size) { return size < -1; });
  if (open > 1 || negative) {
    throw invalid_argument(fmt::format("{}: target_shape is {}", internal::titled("Reshape", name),
                                       describe(target_shape)),
                           "sizes must be at least 0, and at most one of them may be -1");
  }
  return Layer(std::make_shared<ReshapeImpl>(std::move(target_shape), std::move(name)));
}

Layer Permute(std::vector<int64_t> dims, std::string name) {
  std::vector<int64_t> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] == static_cast<int64_t>(i) + 1) continue;
    throw invalid_argument(
        fmt::format("{}: dims is {}", internal::titled("Permute", name), describe(dims)),
        "dims must be a permutation of 1, 2, ..., one number for each axis after the batch");
  }
  return Layer(std::make_shared<PermuteImpl>(dims, std::move(name)));
}

Layer RepeatVector(int64_t n, std::string name) {
  internal::check_positive(internal::titled("RepeatVector", name), "n", n);
  return Layer(std::make_shared<RepeatVectorImpl>(n, std::move(name)));
}

Layer Flatten(std::string name) { return Layer(std::make_shared<FlattenImpl>(std::move(name))); }

}  // namespace muster::inline v0_1
