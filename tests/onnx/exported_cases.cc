#include "tests/onnx/exported_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "muster/base/random.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/variable_table.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/layer_maker.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

// A layer with its weights, called on the tensors of a request.
struct CalledLayer {
  Layer layer;
  distribute::VariableTable variables{7};
  StepContext context{variables, 11};
  size_t tensors = 0;
  std::vector<bool> masked{};

  explicit CalledLayer(Layer made) : layer(std::move(made)) {}

  std::map<std::string, ExportOutput> operator()(const ServableSource::Tensors& features) {
    LayerInputs inputs;
    for (size_t i = 0; i < tensors; ++i) {
      inputs.tensors.push_back(features.at("x" + std::to_string(i)));
      const auto mask = features.find("mask" + std::to_string(i));
      inputs.masks.push_back(mask == features.end() ? Tensor() : mask->second);
    }
    if (std::ranges::none_of(inputs.masks, [](const Tensor& mask) { return mask.defined(); }))
      inputs.masks.clear();
    context.begin_step(/*training=*/false, 0, 0);
    const LayerOutputs given = layer(inputs, context);
    std::map<std::string, Tensor> outputs;
    for (size_t i = 0; i < given.tensors.size(); ++i)
      outputs["y" + std::to_string(i)] = given.tensors[i];
    for (size_t i = 0; i < given.state.size(); ++i)
      outputs["state" + std::to_string(i)] = given.state[i];
    return {{kServingDefault, PredictOutput(outputs)}};
  }
};

ServingFeature feature_of(const Tensor& rows) {
  ServingFeature feature{rows.scalar_type(), {rows.sizes().begin() + 1, rows.sizes().end()}};
  // Ids and masks as the case has them; other numbers may be any.
  if (!rows.is_floating_point()) feature.example = rows;
  return feature;
}

ExportedCase layer_case(const PeerCase& peer) {
  auto called = std::make_shared<CalledLayer>(make_layer(peer.program.at("layer")));
  std::map<std::string, ServingFeature> features;
  ServableSource::Tensors first;
  const auto add = [&](const std::string& name, const std::string& array) {
    const auto found = peer.inputs.find(array);
    if (found == peer.inputs.end()) return false;
    first[name] = found->second.tensor();
    features[name] = feature_of(first[name]);
    return true;
  };
  for (size_t& i = called->tensors; add("x" + std::to_string(i), "input_0_" + std::to_string(i));
       ++i)
    add("mask" + std::to_string(i), "mask_0_" + std::to_string(i));
  (void)(*called)(first);  // makes the variables
  ServableSource source{.function = [called](const auto& rows) { return (*called)(rows); },
                        .receiver = raw_serving_input_receiver(std::move(features))};
  // Zeros and ones, with which layers begin, hide mistakes.
  Random random(derive_key(1, {id_of(peer.name)}));
  for (const auto& variable : called->variables.variables()) {
    const torch::NoGradGuard no_grad;
    Tensor value = variable->value();
    if (value.is_floating_point()) {
      Tensor added = torch::empty(value.sizes(), at::kDouble);
      for (int64_t i = 0; i < added.numel(); ++i) added.data_ptr<double>()[i] = random.uniform();
      value.add_(added.to(value.scalar_type()), 0.2);
    }
    source.weights.emplace_back(variable->name(), value);
  }
  return {fmt::format("{}_{}", peer.program.at("layer").at("class").get<std::string>(), peer.name),
          std::move(source)};
}

Tensor rows_of(const std::string& name, const TensorInfo& info, bool may_be_missing, int64_t rows) {
  Shape shape = info.shape;
  std::ranges::replace(shape, int64_t{-1}, int64_t{9});
  shape[0] = rows;
  Random random(derive_key(static_cast<uint64_t>(rows), {id_of(name), 5}));
  Tensor values = torch::empty(shape, at::kDouble);
  const bool floats = at::isFloatingType(info.dtype);
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] =
        floats ? 2 * random.uniform() - 0.5 : static_cast<double>(random.uniform_below(2));
    if (may_be_missing && random.uniform() < 0.3)
      values.data_ptr<double>()[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return values.to(info.dtype);
}

}  // namespace

std::vector<ExportedCase> layer_cases(const std::string& folder) {
  std::vector<ExportedCase> cases;
  std::vector<std::string> names = file_systems().list_directory(folder).value();
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (!name.ends_with(".json")) continue;
    const PeerCase peer = read_peer_case(join_path(folder, name));
    const std::string kind = peer.program.at("layer").at("class");
    if (peer.refused || kind == "constraint" || kind == "regularizer") continue;
    if (peer.inputs.contains("state_0_0") || peer.inputs.contains("attention_mask_0")) continue;
    // Its batch axis is not the first.
    if (peer.program.at("layer").at("options").value("time_major", false)) continue;
    cases.push_back(layer_case(peer));
  }
  return cases;
}

std::vector<ExportedCase> libtorch_cases() {
  std::vector<ExportedCase> cases;
  const auto add = [&cases](const std::string& name, int64_t gates, int64_t layers, bool biases,
                            bool both) {
    constexpr int64_t kUnits = 4;
    const int64_t directions = both ? 2 : 1;
    ServableSource source{.receiver = raw_serving_input_receiver({{"steps", {kFloat32, {9, 3}}}})};
    std::vector<Tensor> weights;
    const auto weight = [&](const Shape& shape) {
      const auto number = static_cast<double>(weights.size());
      weights.push_back(torch::ones(shape).cumsum(0).add(number).sin().mul(0.7));
      if (shape.size() == 2) weights.back().mul_(torch::arange(1, shape[1] + 1).cos());
      source.weights.emplace_back("weight_" + std::to_string(weights.size()), weights.back());
    };
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (int64_t i = 0; i < directions; ++i) {
        weight({gates * kUnits, layer == 0 ? 3 : directions * kUnits});
        weight({gates * kUnits, kUnits});
        for (int half = 0; biases && half < 2; ++half) weight({gates * kUnits});
      }
    }
    source.function = [=](const ServableSource::Tensors& features) {
      const Tensor steps = features.at("steps");
      const Tensor zeros = torch::zeros({layers * directions, steps.size(0), kUnits});
      const Tensor first = zeros + steps.mean({1, 2}).unsqueeze(1);
      std::map<std::string, Tensor> results;
      if (gates == 4) {
        const auto [outputs, hidden, cell] =
            at::lstm(steps, {first, zeros}, weights, biases, layers, 0.0, false, both, true);
        results = {{"outputs", outputs},
                   {"hidden", hidden.transpose(0, 1)},
                   {"cell", cell.transpose(0, 1)}};
      } else {
        const auto [outputs, hidden] =
            at::gru(steps, first, weights, biases, layers, 0.0, false, both, true);
        results = {{"outputs", outputs}, {"hidden", hidden.transpose(0, 1)}};
      }
      return std::map<std::string, ExportOutput>{{kServingDefault, PredictOutput(results)}};
    };
    cases.push_back({name, std::move(source)});
  };
  add("lstm", 4, 1, true, false);
  add("lstm_of_two_layers", 4, 2, false, true);
  add("gru_of_two_directions", 3, 1, true, true);
  return cases;
}

void write_batches(const std::string& folder, const ServableSource::Tensors& all) {
  const Servable model(folder);
  for (const int64_t rows : {1, 2, 7}) {
    Servable::Tensors batch;
    Checkpoint numbers;
    const Signature& taken = model.signature(kServingDefault);
    for (const auto& [name, info] : taken.inputs) {
      batch[name] = all.empty() ? rows_of(name, info, taken.may_be_missing.contains(name), rows)
                                : all.at(name).slice(0, 0, rows).contiguous();
      numbers.tensors["in/" + name] = batch[name];
    }
    for (const auto& [signature, about] : model.signatures()) {
      for (const auto& [name, output] : model.run(signature, batch))
        numbers.tensors["out/" + signature + "/" + name] = output.contiguous();
    }
    write_checkpoint(file_systems(), join_path(folder, std::to_string(rows) + ".safetensors"),
                     numbers);
  }
}

}  // namespace muster::inline v0_1
