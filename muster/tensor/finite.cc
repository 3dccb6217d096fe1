#include "muster/tensor/finite.h"

#include <cmath>

#include "muster/tensor/host_copy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

namespace {

struct Found {
  int64_t index;  // in the flat tensor
  double value;
};

std::optional<Found> first_non_finite(const Tensor& tensor) {
  if (!tensor.defined() || !at::isFloatingType(tensor.scalar_type())) return std::nullopt;
  const Tensor flat = tensor.detach().reshape({-1});
  // If the sum is finite, all elements are. This pass is cheap; the exact one runs only after it,
  // also when the sum merely overflows.
  if (std::isfinite(flat.sum(at::kDouble).item<double>())) return std::nullopt;
  const Tensor bad = flat.isfinite().logical_not().nonzero();
  if (bad.numel() == 0) return std::nullopt;
  const auto index = bad[0][0].item<int64_t>();
  return Found{index, flat[index].item<double>()};
}

}  // namespace

bool all_finite(const Tensor& tensor) { return !first_non_finite(tensor); }

bool all_between(const Tensor& tensor, double low, double high) {
  if (tensor.numel() == 0) return true;
  const Tensor given = nearest(tensor.detach());
  // A batch has few labels: an operation of LibTorch would take longer than to look at them.
  if (given.is_cpu() && given.scalar_type() == kFloat32 && given.is_contiguous()) {
    const auto* numbers = given.data_ptr<float>();
    bool between = true;
    for (int64_t i = 0; i < given.numel(); ++i) between &= numbers[i] >= low && numbers[i] <= high;
    return between;
  }
  const auto [least, most] = at::aminmax(given);
  // NaN compares with nothing.
  return least.item<double>() >= low && most.item<double>() <= high;
}

std::optional<std::string> find_non_finite(const std::string& name, const Tensor& tensor) {
  const auto found = first_non_finite(tensor);
  if (!found) return std::nullopt;
  return fmt::format("{} holds {} (element {} of {})", name, found->value, found->index,
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
    const Tensor& tensor = values[i].tensor();
    const auto found = first_non_finite(tensor);
    if (!found) continue;
    const std::string name = keys.size() == values.size() ? kind + " \"" + keys[i] + "\"" : kind;
    const int64_t row = tensor.dim() == 0 ? 0 : found->index / (tensor.numel() / tensor.size(0));
    return fmt::format("the batch's {} holds {} in row {} of {}", name, found->value, row,
                       describe(tensor));
  }
  return std::nullopt;
}

}  // namespace

NonFiniteCause explain_non_finite(const Features& features, const Labels& labels,
                                  const VariableStore& variables, const Tensor& loss) {
  for (const auto& found : {find_in_view("feature", features), find_in_view("label", labels)}) {
    if (found) return {*found, "mend the data, or leave such rows out in the input function"};
  }
  const std::string hint = "lower the learning rate or check the input";
  if (auto found = find_non_finite(variables)) return {*found, hint};
  if (auto found = find_non_finite("the loss", loss))
    return {*found + "; inputs and variables are finite", hint};
  return {
      "inputs, variables and loss of this replica are finite: the number came from its gradients "
      "or from another replica",
      hint};
}

}  // namespace muster::inline v0_1
