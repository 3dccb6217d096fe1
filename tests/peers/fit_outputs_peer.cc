// Keras's models with several inputs and outputs: tools/peers/cases/fit_outputs.py.
#include <string>
#include <vector>

#include "muster/keras/model.h"
#include "muster/layers/dense.h"
#include "muster/layers/functional.h"
#include "muster/layers/merge.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/fit_parts.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

Functional model_of(const Json& program) {
  std::vector<SymbolicTensor> inputs, seen, outputs;
  for (const Json& one : program.at("inputs")) {
    const std::string name = one.at("name");
    inputs.push_back(Input({one.at("size").get<int64_t>()}, {.name = name}));
    seen.push_back(
        Dense(3, {.activation = activations::tanh, .name = "read_" + name})(inputs.back()));
  }
  const SymbolicTensor joined = seen.size() > 1 ? Concatenate(-1, "joined")(seen) : seen[0];
  for (const Json& one : program.at("outputs")) {
    const std::string task = one.at("task");
    DenseOptions options{.name = one.at("name").get<std::string>()};
    if (task == "binary") options.activation = activations::sigmoid;
    if (task == "classes" || task == "one_hot") options.activation = activation("softmax");
    const int64_t units = task == "binary" ? 1 : task == "numbers" ? 2 : 3;
    outputs.push_back(Dense(units, options)(joined));
  }
  return Functional(inputs, outputs);
}

// The arrays "x 0", "x 1" and so on, as a dict of the names or as a tuple.
Element elements_of(const PeerCase& a_case, const std::string& prefix, const Json& named) {
  std::vector<std::pair<std::string, Element>> by_name;
  std::vector<Element> in_order;
  for (size_t i = 0; i < named.size(); ++i) {
    const Tensor tensor = a_case.inputs.at(prefix + " " + std::to_string(i)).tensor();
    by_name.emplace_back(named[i].at("name").get<std::string>(), tensor);
    in_order.emplace_back(tensor);
  }
  // A tuple of one is no tensor.
  if (in_order.size() == 1 && !a_case.program.at("by_name")) return in_order[0];
  return a_case.program.at("by_name") ? Element::dict(by_name) : Element::tuple(in_order);
}

keras::CompileOptions compile_options(const Json& program) {
  keras::CompileOptions options{.optimizer = program.at("optimizer").get<std::string>()};
  for (const Json& output : program.at("outputs")) {
    const std::string name = output.at("name");
    if (!output.at("loss").is_null())
      options.losses[name] = keras::Loss(output.at("loss").get<std::string>());
    if (output.contains("loss_weight")) options.loss_weights[name] = output.at("loss_weight");
    if (!output.at("metrics").empty())
      options.output_metrics[name] = peer_metrics(output.at("metrics"));
  }
  return options;
}

PeerArrays run_fit_outputs(const PeerCase& a_case) {
  const Json& program = a_case.program;
  keras::Model model(model_of(program), {.environment = Environment()});
  model.compile(compile_options(program));
  model.build();
  std::map<std::string, Tensor> weights;
  for (const auto& [name, value] : model.get_weights())
    weights[name] = a_case.inputs.at("weight " + name).tensor();
  model.set_weights(weights);
  const Json& inputs = program.at("inputs");
  const Json& outputs = program.at("outputs");
  const Element x = elements_of(a_case, "x", inputs), y = elements_of(a_case, "y", outputs);
  keras::FitOptions options{.verbose = keras::Verbose::kSilent};
  options.shuffle = false;
  take(program, "epochs", options.epochs);
  take(program, "batch_size", options.batch_size);
  if (program.at("sample_weight"))
    options.sample_weight = a_case.inputs.at("sample_weight").tensor();
  if (program.at("validation_rows") > 0) {
    options.validation_data =
        Dataset::from_tensor_slices(Element::tuple({elements_of(a_case, "val_x", inputs),
                                                    elements_of(a_case, "val_y", outputs)}))
            .batch(options.batch_size);
  }
  PeerArrays result;
  for (const auto& [name, values] : model.fit(x, y, options).history)
    result["history/" + name] = PeerArray::of(torch::tensor(values, kFloat64));
  for (const auto& [name, value] : model.get_weights())
    result["weight " + name] = PeerArray::of(value);
  for (const auto& [name, value] : model.evaluate(x, y, options.batch_size))
    result["evaluate/" + name] = PeerArray::of(value);
  const Dataset data = Dataset::from_tensor_slices(Element::tuple({x, y}));
  for (const auto& [name, value] : model.predict_outputs(data.batch(options.batch_size)))
    result["predict " + name] = PeerArray::of(value);
  return result;
}

const PeerKind kFitOutputs("fit_outputs", run_fit_outputs);

}  // namespace
}  // namespace muster::inline v0_1
