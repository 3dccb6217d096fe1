#include "muster/keras/internal/structure.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::keras::internal {
namespace {

using Kind = Structure::Kind;

Error does_not_fit(const std::string& wanted, const std::vector<std::string>& names,
                   const Element& element, const std::string& verb) {
  return invalid_argument(
      fmt::format("the model has the {}{} {}; the data gives {} {}", wanted,
                  names.size() == 1 ? "" : "s", join_quoted(names), verb, element.describe()),
      names.size() == 1
          ? "give it one tensor, or a dict with an entry of that name; a map() chooses it"
          : "give it a dict with an entry for each of these names, or a tuple of tensors in their "
            "order");
}

const Tensor& tensor_of(const Element& element, const std::string& name, const char* what) {
  if (element.is_leaf() && element.value().is_tensor()) return element.value().tensor();
  throw invalid_argument(
      fmt::format("{} \"{}\" are {}; a model takes tensors", what, name, element.describe()),
      "make numbers of texts in the input pipeline: StringLookup, or feature_column::resolve()");
}

// The values by the names; empty if they do not fit.
std::vector<Tensor> by_name(const Element& element, const std::vector<std::string>& names,
                            const char* what) {
  std::vector<Tensor> values;
  const Structure& structure = element.structure();
  if (structure.kind == Kind::kDict) {
    for (const std::string& name : names) {
      if (!std::ranges::binary_search(structure.keys, name)) return {};
      values.push_back(tensor_of(element.at(name), name, what));
    }
  } else if (structure.kind == Kind::kTuple) {
    if (element.size() != static_cast<int64_t>(names.size())) return {};
    for (size_t i = 0; i < names.size(); ++i)
      values.push_back(tensor_of(element.part(static_cast<int64_t>(i)), names[i], what));
  }
  return values;
}

}  // namespace

LayerInputs inputs_of(const Features& features, const std::vector<std::string>& names) {
  const Element& element = features.element();
  std::vector<Tensor> inputs;
  if (names.size() == 1 && element.is_leaf()) {
    inputs = {tensor_of(element, names[0], "the features")};
  } else {
    inputs = by_name(element, names, "the features");
    // A dict of one entry is meant, whatever it is called.
    if (inputs.empty() && names.size() == 1 && element.values().size() == 1)
      inputs = {features.tensor()};
  }
  if (inputs.empty()) throw does_not_fit("input", names, element, "the features");
  return {.tensors = std::move(inputs)};
}

Tensor part_of(const ElementView& view, const std::vector<std::string>& names, size_t index,
               const char* what, bool shared) {
  if (!view.defined()) return {};
  const Element& element = view.element();
  if (element.is_leaf() && (shared || names.size() == 1))
    return tensor_of(element, names[index], what);
  std::vector<Tensor> values = by_name(element, names, what);
  if (values.empty() && names.size() == 1 && element.values().size() == 1) values = {view.tensor()};
  if (values.empty()) throw does_not_fit("output", names, element, what);
  return values[index];
}

}  // namespace muster::inline v0_1::keras::internal
