#include "muster/layers/layer.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/call_layer.h"
#include "muster/layers/internal/graph_node.h"

namespace muster::inline v0_1 {
namespace {

bool covers(const Tensor& mask, const Tensor& tensor) {
  return mask.scalar_type() == at::kBool && mask.dim() <= tensor.dim() &&
         mask.sizes() == tensor.sizes().slice(0, static_cast<size_t>(mask.dim()));
}

void check_inputs(const LayerInputs& inputs, const LayerIdentity& layer, CallContext& context) {
  const auto refuse = [&](const std::string& text, const std::string& hint = {}) {
    throw invalid_argument(fmt::format("layer {}: {}", context.name_of(layer), text), hint);
  };
  const auto number = [&](size_t i) {
    return inputs.tensors.size() == 1 ? std::string() : fmt::format(" {}", i);
  };
  for (size_t i = 0; i < inputs.tensors.size(); ++i) {
    if (!inputs.tensors[i].defined()) refuse(fmt::format("the input{} is undefined", number(i)));
  }
  if (inputs.masks.empty()) return;
  if (inputs.masks.size() != inputs.tensors.size()) {
    refuse(fmt::format("{} masks were given for {} tensors", inputs.masks.size(),
                       inputs.tensors.size()),
           "give each tensor a mask; an undefined one means that all of it counts");
  }
  for (size_t i = 0; i < inputs.masks.size(); ++i) {
    if (!inputs.masks[i].defined() || covers(inputs.masks[i], inputs.tensors[i])) continue;
    refuse(fmt::format("the mask {} does not fit the input{} {}", describe(inputs.masks[i]),
                       number(i), describe(inputs.tensors[i])),
           "a mask is bool, of the shape of the first axes of its tensor");
  }
}

}  // namespace

Layer::Layer(std::shared_ptr<const LayerImpl> impl) : impl_(std::move(impl)) {
  if (!impl_) throw invalid_argument("a Layer was made without an implementation");
}

LayerOutputs Layer::operator()(const LayerInputs& inputs, CallContext& context) const {
  check_inputs(inputs, impl_->identity(), context);
  return internal::call_layer(*impl_, inputs, context);
}

Tensor Layer::operator()(const Tensor& input, CallContext& context) const {
  LayerOutputs outputs = (*this)(LayerInputs{.tensors = {input}}, context);
  if (outputs.tensors.size() != 1) {
    throw invalid_argument(
        fmt::format("layer {} gives {} tensors, where one was asked for",
                    context.name_of(impl_->identity()), outputs.tensors.size()),
        "call it with LayerInputs{.tensors = {...}}, and take all that comes out");
  }
  return std::move(outputs.tensors[0]);
}

CallContext& Layer::current_context() const {
  CallContext* context = CallContext::current();
  if (context == nullptr) {
    throw invalid_argument(
        fmt::format("a layer ({}) was called outside of a replica function",
                    impl_->identity().class_name),
        "call it inside of strategy->run(...), where its variables are; a model function takes it "
        "through context.model(...)");
  }
  return *context;
}

LayerOutputs Layer::operator()(const LayerInputs& inputs) const {
  return (*this)(inputs, current_context());
}

Tensor Layer::operator()(const Tensor& input) const { return (*this)(input, current_context()); }

SymbolicValues Layer::operator()(const SymbolicValues& inputs) const {
  return internal::call_on_symbols(*this, inputs);
}

SymbolicTensor Layer::operator()(const std::vector<SymbolicTensor>& inputs) const {
  SymbolicValues outputs = (*this)(SymbolicValues{.tensors = inputs});
  if (outputs.tensors.size() != 1) {
    throw invalid_argument(
        fmt::format("a layer ({}) gives {} tensors, where one was asked for",
                    impl_->identity().class_name, outputs.tensors.size()),
        "call it with SymbolicValues{.tensors = {...}}, and take all that comes out");
  }
  return std::move(outputs.tensors[0]);
}

SymbolicTensor Layer::operator()(const SymbolicTensor& input) const {
  return (*this)(std::vector{input});
}

}  // namespace muster::inline v0_1
