#include "muster/layers/activations.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

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

}  // namespace muster::inline v0_1
