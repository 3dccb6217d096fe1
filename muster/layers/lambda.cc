#include "muster/layers/lambda.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1 {
namespace {

class LambdaImpl final : public UnaryLayerImpl {
 public:
  LambdaImpl(std::function<Tensor(const Tensor&)> function, std::string name)
      : UnaryLayerImpl("lambda", std::move(name)), function_(std::move(function)) {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const std::string& name = context.name_of(identity());
    Tensor result = called(input, name);
    if (!result.defined()) {
      throw invalid_argument(fmt::format("layer {}: its function gave an undefined tensor, for {}",
                                         name, describe(input)));
    }
    return result;
  }

 private:
  Tensor called(const Tensor& input, const std::string& name) const {
    try {
      return function_(input);
    } catch (const c10::Error& error) {
      throw converted_error(fmt::format("layer {}: its function failed for {}: {}", name,
                                        describe(input), text_of(error)),
                            [&] {
                              return tells_of_mixed_devices(text_of(error))
                                         ? "make tensors where its argument is: x.options()"
                                         : "";
                            });
    }
  }

  std::function<Tensor(const Tensor&)> function_;
};

}  // namespace

Layer Lambda(std::function<Tensor(const Tensor&)> function, std::string name) {
  if (!function)
    throw invalid_argument(internal::titled("Lambda", name) + ": function is empty",
                           "give it a function to call");
  return Layer(std::make_shared<LambdaImpl>(std::move(function), std::move(name)));
}

}  // namespace muster::inline v0_1
