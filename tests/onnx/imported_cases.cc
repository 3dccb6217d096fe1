#include "tests/onnx/imported_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>

#include "muster/base/error.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/data/npy.h"
#include "muster/distribute/variable_table.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/imports/onnx_import.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Nothing if the numbers are equal: |a - b| <= absolute + relative |a|, and NaN is NaN.
std::optional<std::string> difference(const Tensor& expected, const Tensor& got, double relative,
                                      double absolute) {
  if (expected.sizes() != got.sizes() || expected.scalar_type() != got.scalar_type())
    return fmt::format("{} rather than {}", describe(got), describe(expected));
  const Tensor a = expected.to(at::kDouble), b = got.to(at::kDouble);
  if (at::allclose(b, a, relative, absolute, /*equal_nan=*/true)) return std::nullopt;
  const Tensor apart = at::nan_to_num(a.sub(b)).abs();
  return fmt::format("by {:.3g}", apart.max().item<double>());
}

double number_at(const Element& arrays, const std::string& name) {
  return arrays.at(name).value().tensor().item<double>();
}

// Why a model is not run, in a few words that tests share.
std::string reason_of(const Error& error) {
  std::smatch found;
  const std::string& text = error.message();
  if (std::regex_search(text, found, std::regex("the operation of the node .*\\((.*)\\)")))
    return "the operation " + found[1].str();
  if (std::regex_search(text, found, std::regex("the dtype (\\S+)")))
    return "the dtype " + found[1].str();
  if (std::regex_search(text, found, std::regex("not supported: ONNX: the node \".*\" (.*)")))
    return found[1].str();
  if (text.find("is not a tensor") != std::string::npos) return "values that are no tensors";
  if (text.find("not supported") != std::string::npos) return text.substr(0, text.find(','));
  return "";
}

// The tensors of "<path>.safetensors", of Muster, or "<path>.npz", of another program.
std::map<std::string, Tensor> batch_at(const std::string& path) {
  if (!file_systems().exists(path + ".npz").value())
    return read_checkpoint(file_systems(), path + ".safetensors").tensors;
  std::map<std::string, Tensor> tensors;
  const Element arrays = data::load_npz(path + ".npz");
  for (const std::string& name : arrays.structure().keys)
    tensors[name] = arrays.at(name).value().tensor();
  return tensors;
}

// The inputs of a signature: those that are for it alone, "in/SIGNATURE/NAME", or all, "in/NAME".
Servable::Tensors inputs_for(const std::string& signature,
                             const std::map<std::string, Tensor>& numbers) {
  Servable::Tensors inputs;
  for (const std::string& prefix : {"in/" + signature + "/", std::string("in/")}) {
    for (const auto& [name, value] : numbers) {
      if (name.starts_with(prefix)) inputs[name.substr(prefix.size())] = value;
    }
    if (!inputs.empty()) break;
  }
  return inputs;
}

// The first difference of a test; nothing if there is none.
std::optional<std::string> run_node_test(const std::string& folder) {
  const Element arrays = data::load_npz(join_path(folder, "arrays.npz"));
  const onnx::OnnxModel model = onnx::load_model(file_systems(), join_path(folder, "model.onnx"));
  const auto names = arrays.structure().keys;
  LayerInputs inputs;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const std::string name = fmt::format("in_{}", i);
    if (std::ranges::find(names, name) == names.end()) return "an input has no array";
    inputs.tensors.push_back(arrays.at(name).value().tensor());
  }
  distribute::VariableTable variables{1};
  StepContext context{variables, 1};
  context.begin_step(/*training=*/false, 0, 0);
  const LayerOutputs outputs = model.layer(inputs, context);
  for (size_t i = 0; i < outputs.tensors.size(); ++i) {
    const std::string name = fmt::format("out_{}", i);
    if (std::ranges::find(names, name) == names.end()) continue;
    const Tensor expected = arrays.at(name).value().tensor();
    // Two units in the last place: numpy rounds to float16 after each operation, LibTorch sums in
    // float32.
    const double least = expected.scalar_type() == at::kHalf ? std::ldexp(1.0, -9) : 0;
    const auto differs =
        difference(expected, outputs.tensors[i], std::max(least, number_at(arrays, "rtol")),
                   number_at(arrays, "atol"));
    if (differs) return fmt::format("output {} differs: {}", i, *differs);
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> import_differences(const std::string& folder, const std::string& file) {
  const Servable model(join_path(folder, file));
  std::vector<std::string> lines;
  for (const int rows : {1, 2, 7}) {
    const std::map<std::string, Tensor> numbers = batch_at(join_path(folder, std::to_string(rows)));
    for (const auto& [signature, about] : model.signatures()) {
      const Servable::Tensors inputs = inputs_for(signature, numbers);
      for (const auto& [name, got] : model.run(signature, inputs)) {
        const Tensor& expected = numbers.at("out/" + signature + "/" + name);
        const double largest =
            expected.numel() == 0
                ? 1
                : std::max(
                      1.0,
                      at::nan_to_num(expected.to(at::kDouble), 0, 0, 0).abs().max().item<double>());
        const auto differs = difference(expected, got, 0, 1e-5 * largest);
        if (differs)
          lines.push_back(fmt::format("{}/{} of {} rows: {}", signature, name, rows, *differs));
      }
    }
  }
  return lines;
}

NodeTests run_node_tests(const std::string& folder) {
  NodeTests result;
  std::vector<std::string> names = file_systems().list_directory(folder).value();
  std::ranges::sort(names);
  for (const std::string& name : names) {
    const std::string inside = join_path(folder, name);
    if (file_systems().exists(join_path(inside, "other_values")).value()) {
      ++result.unsupported["values that are no tensors of numpy's dtypes"];
      continue;
    }
    std::string line;
    try {
      const auto differs = run_node_test(inside);
      if (!differs) {
        ++result.passed;
        continue;
      }
      line = *differs;
    } catch (const Error& error) {
      const std::string reason = reason_of(error);
      if (!reason.empty()) {
        ++result.unsupported[reason];
        continue;
      }
      line = error.message();
    }
    result.differing.push_back(fmt::format("{}: {}", name, line));
  }
  return result;
}

}  // namespace muster::inline v0_1
