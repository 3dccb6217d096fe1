#include "muster/export/export_output.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

ExportOutput PredictOutput(std::map<std::string, Tensor> outputs) {
  if (outputs.empty()) {
    throw invalid_argument("PredictOutput: outputs is empty", "give it {\"name\", tensor}");
  }
  for (const auto& [name, tensor] : outputs) {
    if (tensor.defined()) continue;
    throw invalid_argument(fmt::format("PredictOutput: the tensor \"{}\" is undefined", name),
                           "give each output a tensor that the model function computed");
  }
  return {.method = SignatureMethod::kPredict, .outputs = std::move(outputs)};
}

ExportOutput PredictOutput(Tensor output) {
  return PredictOutput(std::map<std::string, Tensor>{{"output", std::move(output)}});
}

ExportOutput ClassificationOutput(Tensor scores, std::vector<std::string> classes) {
  if (!scores.defined() || scores.dim() != 2 || !scores.is_floating_point()) {
    throw invalid_argument(
        fmt::format("ClassificationOutput: scores is {}", describe(scores)),
        "scores are floats [batch, classes], one for each class of each example");
  }
  const auto count = static_cast<size_t>(scores.size(1));
  if (classes.empty()) {
    for (size_t i = 0; i < count; ++i) classes.push_back(std::to_string(i));
  }
  if (classes.size() != count) {
    throw invalid_argument(fmt::format("ClassificationOutput: {} classes are named, scores is {}",
                                       classes.size(), describe(scores)),
                           "name each class, in the order of the scores");
  }
  return {.method = SignatureMethod::kClassify,
          .outputs = {{"scores", std::move(scores)}},
          .classes = std::move(classes)};
}

ExportOutput RegressionOutput(Tensor value) {
  if (!value.defined() || value.dim() < 1 || value.dim() > 2 || value.scalar_type() == at::kBool) {
    throw invalid_argument(fmt::format("RegressionOutput: value is {}", describe(value)),
                           "it is [batch] or [batch, n], of numbers");
  }
  return {.method = SignatureMethod::kRegress, .outputs = {{"outputs", std::move(value)}}};
}

}  // namespace muster::inline v0_1
