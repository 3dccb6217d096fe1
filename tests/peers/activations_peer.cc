// tf.keras.activations: tools/peers/cases/activations.py.
#include <string>

#include "muster/layers/activations.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

Activation activation_of(const std::string& name, const Json& given) {
  if (name == "relu") {
    activations::ReluOptions options;
    take(given, "max_value", options.max_value);
    take(given, "negative_slope", options.negative_slope);
    take(given, "threshold", options.threshold);
    return activations::relu(options);
  }
  if (name == "leaky_relu") {
    activations::LeakyReluOptions options;
    take(given, "alpha", options.alpha);
    return activations::leaky_relu(options);
  }
  if (name == "elu") {
    activations::EluOptions options;
    take(given, "alpha", options.alpha);
    return activations::elu(options);
  }
  if (name == "gelu") {
    activations::GeluOptions options;
    take(given, "approximate", options.approximate);
    return activations::gelu(options);
  }
  if (given.contains("axis")) {
    const activations::SoftmaxOptions options{.axis = given.at("axis")};
    return name == "softmax" ? activations::softmax(options) : activations::log_softmax(options);
  }
  return activation(name);
}

PeerArrays run_activation(const PeerCase& a_case) {
  const Activation function =
      activation_of(a_case.program.at("name"), a_case.program.value("options", Json::object()));
  const Tensor x = a_case.inputs.at("x").tensor().requires_grad_();
  const Tensor y = activations::apply(function, x);
  (y * a_case.inputs.at("weights").tensor()).sum().backward();
  return {{"y", PeerArray::of(y)}, {"gradient", PeerArray::of(x.grad())}};
}

const PeerKind kActivations("activations", run_activation);

}  // namespace
}  // namespace muster::inline v0_1
