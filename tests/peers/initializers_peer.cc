// tf.keras.initializers: tools/peers/cases/initializers.py, which defines how random ones are
// compared.
#include <stdexcept>
#include <string>

#include "muster/layers/initializers.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

Initializer scaled(const Json& given) {
  initializers::VarianceScalingOptions options;
  take(given, "scale", options.scale);
  const std::string mode = given.value("mode", "fan_in");
  const std::string distribution = given.value("distribution", "truncated_normal");
  options.mode = mode == "fan_in"    ? initializers::FanMode::kFanIn
                 : mode == "fan_out" ? initializers::FanMode::kFanOut
                                     : initializers::FanMode::kFanAvg;
  options.distribution = distribution == "uniform" ? initializers::Distribution::kUniform
                         : distribution == "untruncated_normal"
                             ? initializers::Distribution::kUntruncatedNormal
                             : initializers::Distribution::kTruncatedNormal;
  return initializers::variance_scaling(options);
}

// Keras's defaults of bounds and moments equal Muster's: the functions are called without them.
Initializer initializer(const std::string& name, const Json& given) {
  if (name == "Zeros") return initializers::zeros();
  if (name == "Ones") return initializers::ones();
  if (name == "Constant") return initializers::constant(given.at("value").get<double>());
  if (name == "Identity")
    return given.empty() ? initializers::identity() : initializers::identity(given.at("gain"));
  if (name == "Orthogonal")
    return given.empty() ? initializers::orthogonal() : initializers::orthogonal(given.at("gain"));
  if (name == "RandomUniform") {
    return given.empty() ? initializers::random_uniform()
                         : initializers::random_uniform(given.at("minval"), given.at("maxval"));
  }
  if (name == "RandomNormal") {
    return given.empty()
               ? initializers::random_normal()
               : initializers::random_normal(given.value("mean", 0.0), given.at("stddev"));
  }
  if (name == "TruncatedNormal") {
    return given.empty()
               ? initializers::truncated_normal()
               : initializers::truncated_normal(given.value("mean", 0.0), given.at("stddev"));
  }
  if (name == "VarianceScaling") return scaled(given);
  if (name == "GlorotUniform") return initializers::glorot_uniform();
  if (name == "GlorotNormal") return initializers::glorot_normal();
  if (name == "HeUniform") return initializers::he_uniform();
  if (name == "HeNormal") return initializers::he_normal();
  if (name == "LecunUniform") return initializers::lecun_uniform();
  if (name == "LecunNormal") return initializers::lecun_normal();
  throw std::runtime_error("no initializer is called " + name);
}

PeerArrays run_initializer(const PeerCase& a_case) {
  const Initializer make =
      initializer(a_case.program.at("name"), a_case.program.value("options", Json::object()));
  const auto shape = a_case.program.at("shape").get<Shape>();
  const Tensor values = make(shape, kFloat32, derive_key(5, {1}));
  if (a_case.expected.count("values") > 0) return {{"values", PeerArray::of(values)}};
  const Tensor numbers = values.to(kFloat64);
  if (a_case.expected.count("law") > 0) {
    const Tensor matrix = numbers.reshape({-1, numbers.size(-1)});
    return {{"law", PeerArray::of(matrix.size(0) >= matrix.size(1) ? matrix.t().mm(matrix)
                                                                   : matrix.mm(matrix.t()))}};
  }
  const Tensor x = numbers.reshape(-1) / a_case.inputs.at("scale").tensor();
  const Tensor moments =
      torch::stack({x.mean(), x.pow(2).mean(), x.pow(3).mean(), x.pow(4).mean()});
  return {{"moments", PeerArray::of(moments)}, {"largest", PeerArray::of(x.abs().max())}};
}

const PeerKind kInitializers("initializers", run_initializer);

}  // namespace
}  // namespace muster::inline v0_1
