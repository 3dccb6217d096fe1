#include "muster/train/finite.h"

#include <torch/torch.h>

#include <cmath>

namespace muster::inline v0_1 {

std::optional<std::string> find_non_finite(const std::string& name, const Tensor& tensor) {
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) return std::nullopt;
  const Tensor flat = tensor.detach().reshape({-1});
  // A sum is finite unless some element is not (or the sum overflows): one cheap pass before the
  // exact one.
  if (std::isfinite(flat.sum(torch::kFloat64).item<double>())) return std::nullopt;
  const Tensor bad = flat.isfinite().logical_not().nonzero();
  if (bad.numel() == 0) return std::nullopt;
  const auto index = bad[0][0].item<int64_t>();
  return fmt::format("{} holds {} (element {} of {})", name, flat[index].item<double>(), index,
                     describe(tensor));
}

std::optional<std::string> find_non_finite(const VariableStore& variables) {
  for (const auto& variable : variables.variables()) {
    if (auto found = find_non_finite("variable " + variable->name(), variable->value()))
      return found;
  }
  return std::nullopt;
}

std::optional<std::string> find_non_finite(const VariableStore& variables,
                                           const std::map<std::string, Tensor>& values) {
  for (const auto& variable : variables.variables()) {
    const auto value = values.find(variable->name());
    if (value == values.end()) continue;
    if (auto found = find_non_finite("variable " + variable->name(), value->second)) return found;
  }
  return std::nullopt;
}

namespace {

std::optional<std::string> find_in_view(const std::string& kind, const ElementView& view) {
  const std::vector<std::string> keys = view.keys();
  const auto& values = view.element().values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_tensor()) continue;
    const std::string name =
        keys.size() == values.size() ? kind + " \"" + keys[i] + "\"" : "the " + kind;
    if (auto found = find_non_finite(name, values[i].tensor())) return found;
  }
  return std::nullopt;
}

}  // namespace

std::string explain_non_finite(const Features& features, const Labels& labels,
                               const VariableStore& variables, const Tensor& loss) {
  if (auto found = find_in_view("feature", features)) return *found;
  if (auto found = find_in_view("label", labels)) return *found;
  if (auto found = find_non_finite(variables)) return *found;
  if (auto found = find_non_finite("the loss", loss))
    return *found + "; inputs and variables are finite";
  return "inputs, variables and loss of this worker are finite: the number came from another "
         "worker";
}

}  // namespace muster::inline v0_1
