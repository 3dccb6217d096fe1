#include "muster/canned/internal/dnn_part.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "muster/base/error.h"
#include "muster/canned/internal/error_context.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/functional.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

void check_network(const std::string& estimator, const DnnPartOptions& options) {
  const auto refuse = [&](const char* option, const std::string& value, const char* allowed,
                          const char* hint) {
    throw invalid_argument(fmt::format("{}: {}{} is {}; it must be {}", estimator, options.prefix,
                                       option, value, allowed),
                           hint);
  };
  const std::vector<int64_t>& units = options.hidden_units;
  if (units.empty() || std::any_of(units.begin(), units.end(), [](int64_t n) { return n < 1; })) {
    refuse("hidden_units", fmt::format("[{}]", fmt::join(units, ", ")),
           "the sizes of one or more layers, each at least 1",
           "{64, 32} are two layers; without any there is LinearClassifier or LinearRegressor");
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    refuse("dropout", fmt::format("{}", options.dropout), "at least 0 and less than 1",
           "it is the part of the numbers that a step sets to 0; 0 is none");
  }
}

std::string hidden_layer(size_t i) { return fmt::format("hiddenlayer_{}", i); }

// Calls a layer whose variables are named "<scope>/<layer>/...". Scopes do not nest, so this is the
// whole name.
class ScopedImpl final : public LayerImpl {
 public:
  ScopedImpl(std::string scope, Layer layer)
      : LayerImpl(layer.impl().identity().class_name, ""),
        scope_(std::move(scope)),
        layer_(std::move(layer)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const CallContext::Scope scope(context, scope_);
    return layer_(inputs, context);
  }

 private:
  const std::string scope_;
  const Layer layer_;
};

// tf.estimator's: each layer is followed by dropout, and then by batch normalization.
Layer network(const DnnPartOptions& options, int64_t width, int64_t units) {
  const SymbolicTensor input = Input({width});
  SymbolicTensor net = input;
  std::vector<SymbolicTensor> hidden;
  for (size_t i = 0; i < options.hidden_units.size(); ++i) {
    const std::string name = hidden_layer(i);
    net = Dense(options.hidden_units[i], {.activation = options.activation_fn, .name = name})(net);
    if (options.dropout > 0) net = Dropout(options.dropout)(net);
    if (options.batch_norm) {
      const Layer norm =
          BatchNormalization({.momentum = 0.999, .name = fmt::format("batchnorm_{}", i)});
      net = Layer(std::make_shared<const ScopedImpl>(DnnPart::kScope + name, norm))(net);
    }
    hidden.push_back(net);
  }
  std::vector<SymbolicTensor> outputs{Dense(units, {.name = "logits"})(net)};
  outputs.insert(outputs.end(), hidden.begin(), hidden.end());
  return Functional({input}, std::move(outputs));
}

}  // namespace

DnnPart::DnnPart(std::string estimator, const DnnPartOptions& options, int64_t units)
    : estimator_(std::move(estimator)),
      input_(with_error_context(
          estimator_,
          [&] { return DenseFeatures(options.feature_columns, {.name = "input_layer"}); })),
      network_((check_network(estimator_, options), network(options, input_.width(), units))),
      scopes_{std::string(kScope) + "logits"} {
  for (size_t i = 0; i < options.hidden_units.size(); ++i)
    scopes_.push_back(kScope + hidden_layer(i));
}

Tensor DnnPart::logits(const Features& features, ModelContext& context) const {
  const LayerInputs columns =
      with_error_context(estimator_, [&] { return input_.inputs(features); });
  const LayerInputs input =
      context.model("dnn/input_from_feature_columns", [this] { return input_; })(columns);
  const std::vector<Tensor> given =
      context.model("dnn", [this] { return network_; })(input).tensors;
  for (size_t i = 0; context.summary().due() && i < given.size(); ++i) {
    const Tensor& values = given[i];
    const auto scope = context.summary().scope(scopes_[i]);
    context.summary().scalar("fraction_of_zero_values",
                             [&] { return values.detach().eq(0).to(at::kFloat).mean(); });
    context.summary().histogram("activation", values);
  }
  return given.front();
}

}  // namespace muster::inline v0_1::internal
