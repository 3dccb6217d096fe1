#include "muster/applications/internal/token_layers.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

[[noreturn]] void refuse(CallContext& context, const LayerIdentity& layer,
                         const std::string& expected, const Tensor& given,
                         const std::string& hint = {}) {
  throw invalid_argument(fmt::format("layer {}: expected {}, was given {}", context.name_of(layer),
                                     expected, describe(given)),
                         hint);
}

void check_steps(CallContext& context, const LayerIdentity& layer, const Tensor& input) {
  if (input.dim() != 3) refuse(context, layer, "vectors [batch, steps, width]", input);
}

class ClassTokenImpl final : public UnaryLayerImpl {
 public:
  ClassTokenImpl(Initializer initializer, std::string name)
      : UnaryLayerImpl("class_token", std::move(name)), initializer_(std::move(initializer)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    check_steps(context, identity(), input);
    const int64_t width = input.size(2);
    const Tensor& token = context.variable(identity(), 0, [&] {
      return VariableSpec{.name = "embeddings",
                          .shape = {width},
                          .dtype = input.scalar_type(),
                          .initializer = initializer_};
    });
    return at::cat({token.expand({input.size(0), 1, width}), input}, 1);
  }

 private:
  Initializer initializer_;
};

class PositionEmbeddingImpl final : public UnaryLayerImpl {
 public:
  PositionEmbeddingImpl(int64_t length, bool exactly, Initializer initializer, std::string name)
      : UnaryLayerImpl("position_embedding", std::move(name)),
        length_(length),
        exactly_(exactly),
        initializer_(std::move(initializer)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    check_steps(context, identity(), input);
    const int64_t steps = input.size(1);
    const Tensor& table = context.variable(identity(), 0, [&] {
      return VariableSpec{.name = "embeddings",
                          .shape = {length_, input.size(2)},
                          .dtype = input.scalar_type(),
                          .initializer = initializer_};
    });
    // A call for shapes alone has invented the number of steps.
    if (context.for_shapes_alone() && !exactly_) return input;
    if (exactly_ ? steps != length_ : steps > length_) {
      refuse(context, identity(), fmt::format("{}{} steps", exactly_ ? "" : "at most ", length_),
             input,
             exactly_ ? "it takes inputs of the shape it was made for"
                      : "make it with a longer context, or give it less");
    }
    return input + table.narrow(0, 0, steps);
  }

  bool keeps_steps() const override { return true; }

 private:
  int64_t length_;
  bool exactly_;
  Initializer initializer_;
};

class TiedEmbeddingImpl final : public UnaryLayerImpl {
 public:
  TiedEmbeddingImpl(int64_t vocabulary, int64_t width, Initializer initializer, std::string name)
      : UnaryLayerImpl("tied_embedding", std::move(name)),
        vocabulary_(vocabulary),
        width_(width),
        initializer_(std::move(initializer)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const auto describe_table = [&] {
      return VariableSpec{.name = "embeddings",
                          .shape = {vocabulary_, width_},
                          .dtype = kFloat32,
                          .initializer = initializer_};
    };
    // This says which id is none of the table.
    if (!input.is_floating_point()) return context.rows(identity(), 0, describe_table, input);
    const Tensor& table = context.variable(identity(), 0, describe_table);
    if (input.dim() < 2 || input.size(-1) != width_)
      refuse(context, identity(), fmt::format("vectors [..., {}]", width_), input);
    Shape shape = input.sizes().vec();
    shape.back() = vocabulary_;
    const Tensor rows = input.reshape({-1, width_});
    // A GPU is ten times as fast with bfloat16, and adds up in float32 there, too.
    if (context.mixed_precision() && context.device().is_cuda())
      return at::mm(rows.to(kBFloat16), table.to(kBFloat16).t()).to(kFloat32).view(shape);
    return at::mm(rows, table.t()).view(shape);
  }

  bool keeps_steps() const override { return true; }

 private:
  int64_t vocabulary_, width_;
  Initializer initializer_;
};

}  // namespace

Layer ClassToken(Initializer initializer, std::string name) {
  return Layer(std::make_shared<ClassTokenImpl>(std::move(initializer), std::move(name)));
}

Layer PositionEmbedding(int64_t length, bool exactly, Initializer initializer, std::string name) {
  return Layer(std::make_shared<PositionEmbeddingImpl>(length, exactly, std::move(initializer),
                                                       std::move(name)));
}

Layer TiedEmbedding(int64_t vocabulary, int64_t width, Initializer initializer, std::string name) {
  return Layer(std::make_shared<TiedEmbeddingImpl>(vocabulary, width, std::move(initializer),
                                                   std::move(name)));
}

}  // namespace muster::inline v0_1::internal
