// tf.keras.layers with given weights: tools/peers/cases/layers.py.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"
#include "tests/peers/layer_maker.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

// Variables begin with the weights of the case, in Keras's order: trainable ones in the order in
// which they are made, and then the others. The state of a stateful layer is not a weight in Keras.
class GivenWeights final : public VariableStore {
 public:
  explicit GivenWeights(const PeerCase& a_case) {
    for (int i = 0; a_case.inputs.count("weight_" + std::to_string(i)) > 0; ++i)
      given_.push_back(a_case.inputs.at("weight_" + std::to_string(i)).tensor());
    for (const auto& [name, array] : a_case.expected) {
      if (name.rfind("moving_", 0) == 0) ++not_trained_;
    }
  }

  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    variables_.push_back(std::make_unique<Variable>(spec, value_of(spec)));
    return *variables_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : variables_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }

 private:
  Tensor value_of(const VariableSpec& spec) {
    if (spec.aggregation == VariableAggregation::kConcat)
      return torch::zeros(spec.shape, spec.dtype);
    const size_t place = spec.trainable ? trained_++ : given_.size() - not_trained_ + others_++;
    if (place >= given_.size()) throw std::runtime_error("Keras has no weight for " + spec.name);
    const Tensor value = given_[place].clone();
    if (value.sizes() != at::IntArrayRef(spec.shape))
      throw std::runtime_error("Keras's weight for " + spec.name + " has another shape");
    return value.requires_grad_(spec.trainable);
  }

  std::vector<Tensor> given_;
  size_t not_trained_ = 0;
  size_t trained_ = 0;
  size_t others_ = 0;
  std::vector<std::unique_ptr<Variable>> variables_;
};

struct LayerRun {
  const PeerCase& peer;
  PeerArrays result{};

  Tensor input(const std::string& name) const {
    const auto found = peer.inputs.find(name);
    return found == peer.inputs.end() ? Tensor() : found->second.tensor();
  }

  static Tensor gradient_of(const Tensor& leaf) {
    return leaf.grad().defined() ? leaf.grad() : torch::zeros_like(leaf);
  }

  LayerInputs inputs_of(const std::string& step) const {
    LayerInputs inputs;
    bool masked = false;
    for (int i = 0; peer.inputs.count("input" + step + std::to_string(i)) > 0; ++i) {
      Tensor tensor = input("input" + step + std::to_string(i));
      if (tensor.is_floating_point()) tensor.requires_grad_();
      inputs.tensors.push_back(tensor);
      inputs.masks.push_back(input("mask" + step + std::to_string(i)));
      masked = masked || inputs.masks.back().defined();
    }
    for (int i = 0; peer.inputs.count("state" + step + std::to_string(i)) > 0; ++i)
      inputs.state.push_back(input("state" + step + std::to_string(i)).requires_grad_());
    const auto attention_mask =
        peer.inputs.find("attention_mask" + step.substr(0, step.size() - 1));
    if (attention_mask != peer.inputs.end()) {
      inputs.tensors.push_back(attention_mask->second.tensor());
      if (masked) inputs.masks.emplace_back();
    }
    if (!masked) inputs.masks.clear();
    return inputs;
  }

  void one_call(const Layer& layer, StepContext& context, GivenWeights& weights, int number) {
    const std::string step = "_" + std::to_string(number) + "_";
    const LayerInputs inputs = inputs_of(step);
    context.begin_step(peer.program.at("training"), number, 0);
    const LayerOutputs given = layer(inputs, context);
    std::vector<Tensor> outputs = given.tensors;
    outputs.insert(outputs.end(), given.state.begin(), given.state.end());
    Tensor loss = torch::zeros({});
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::string place = step + std::to_string(i);
      result["output" + place] = PeerArray::of(outputs[i]);
      const Tensor upstream = input("upstream" + place);
      if (upstream.defined()) loss = loss + (outputs[i] * upstream).sum();
    }
    if (!given.masks.empty() && given.masks[0].defined())
      result["output_mask_" + std::to_string(number)] = PeerArray::of(given.masks[0]);
    if (loss.requires_grad()) loss.backward();
    for (size_t i = 0; i < inputs.tensors.size(); ++i) {
      if (inputs.tensors[i].is_floating_point())
        result["input_gradient" + step + std::to_string(i)] =
            PeerArray::of(gradient_of(inputs.tensors[i]));
    }
    for (size_t i = 0; i < inputs.state.size(); ++i)
      result["state_gradient" + step + std::to_string(i)] =
          PeerArray::of(gradient_of(inputs.state[i]));
    int trained = 0;
    for (const auto& variable : weights.variables()) {
      if (!variable->spec().trainable) continue;
      result["weight_gradient" + step + std::to_string(trained++)] =
          PeerArray::of(gradient_of(variable->value()));
      if (variable->value().grad().defined()) variable->value().mutable_grad().reset();
    }
    note_losses(context, weights, number);
  }

  void note_losses(StepContext& context, const GivenWeights& weights, int number) {
    Tensor sum = torch::zeros({}, kFloat64);
    for (const Tensor& loss : context.take_losses()) sum = sum + loss.detach().to(kFloat64);
    const Tensor penalties = regularization_loss(weights);
    if (penalties.defined()) sum = sum + penalties;
    result["losses_" + std::to_string(number)] = PeerArray::of(sum);
  }
};

PeerArrays run_keras_layer(const PeerCase& a_case) {
  const Json& described = a_case.program.at("layer");
  const std::string name = described.at("class");
  if (name == "constraint" || name == "regularizer") {
    const Tensor weight = a_case.inputs.at("input_0_0").tensor();
    const Json& options = described.at("options");
    return {
        {"output_0_0", PeerArray::of(name == "constraint" ? make_constraint(options)(weight)
                                                          : make_regularizer(options)(weight))}};
  }
  GivenWeights weights(a_case);
  StepContext context(weights, 11);
  const Layer layer = make_layer(described);
  LayerRun run{a_case};
  for (int i = 0; i < a_case.program.value("calls", 1); ++i)
    run.one_call(layer, context, weights, i);
  int others = 0;
  for (const auto& variable : weights.variables()) {
    if (variable->spec().trainable || variable->spec().aggregation == VariableAggregation::kConcat)
      continue;
    run.result["moving_" + std::to_string(others++)] = PeerArray::of(variable->value());
  }
  return run.result;
}

const PeerKind kLayers("layers", run_keras_layer);

}  // namespace
}  // namespace muster::inline v0_1
