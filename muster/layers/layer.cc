#include "muster/layers/layer.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/layers/activations.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

Layer::Layer(std::shared_ptr<const LayerBody> body) : body_(std::move(body)) {
  if (!body_) throw invalid_argument("a Layer was made without a body");
}

Tensor Layer::operator()(const Tensor& input, CallContext& context) const {
  if (!input.defined()) {
    throw invalid_argument(
        fmt::format("layer {}: the input is undefined", context.name_of(body_->identity())));
  }
  return body_->call(input, context);
}

Tensor Layer::operator()(const Tensor& input) const {
  CallContext* context = CallContext::current();
  if (context == nullptr) {
    throw invalid_argument(
        fmt::format("a layer ({}) was called outside of a replica function",
                    body_->identity().class_name),
        "call it inside of strategy->run(...), where its variables are; a model function takes it "
        "through context.model(...)");
  }
  return (*this)(input, *context);
}

Tensor activations::apply(Activation activation, const Tensor& input) {
  switch (activation) {
    case Activation::kLinear:
      return input;
    case Activation::kRelu:
      return at::relu(input);
    case Activation::kTanh:
      return at::tanh(input);
    case Activation::kSigmoid:
      return at::sigmoid(input);
    case Activation::kSoftmax:
      return at::softmax(input, -1);
  }
  throw internal_error(fmt::format("unknown activation {}", static_cast<int>(activation)));
}

namespace internal {

void refuse_input(CallContext& context, const LayerIdentity& layer, const std::string& expected,
                  const Tensor& given, const std::string& hint) {
  throw invalid_argument(fmt::format("layer {}: expected {}, was given {}", context.name_of(layer),
                                     expected, describe(given)),
                         hint);
}

void check_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input) {
  const DType dtype = input.scalar_type();
  if (dtype == kFloat32 || dtype == kFloat64) return;
  refuse_input(context, layer, "a float32 or float64 input", input,
               "convert the features in the input function, for example image.to(kFloat32) / 255");
}

void check_same_dtype(CallContext& context, const LayerIdentity& layer, const Tensor& input,
                      const Tensor& variable) {
  if (input.scalar_type() == variable.scalar_type()) return;
  refuse_input(context, layer,
               fmt::format("the dtype of its variables, {}", dtype_name(variable.scalar_type())),
               input);
}

void check_positive(const char* layer, const char* field, int64_t value) {
  if (value >= 1) return;
  throw invalid_argument(fmt::format("{}: {} is {}", layer, field, value),
                         fmt::format("{} must be at least 1", field));
}

}  // namespace internal
}  // namespace muster::inline v0_1
