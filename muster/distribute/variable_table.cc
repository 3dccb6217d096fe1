#include "muster/distribute/variable_table.h"

#include "muster/base/error.h"

namespace muster::distribute {

Variable* VariableTable::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Variable& VariableTable::get_or_create(const VariableSpec& spec) {
  if (Variable* variable = find(spec.name)) {
    if (variable->spec().shape != spec.shape || variable->spec().dtype != spec.dtype) {
      throw invalid_argument(fmt::format("the variable {} already exists as {}", spec.describe(),
                                         variable->spec().describe()),
                             "give one of the two another name");
    }
    return *variable;
  }
  if (spec.name.empty()) throw invalid_argument("a variable needs a name");
  if (sealed_) {
    throw invalid_argument(
        fmt::format("the variable {} was first asked for after the model was built",
                    spec.describe()),
        "create every variable in the first call of the model function, whatever the step or the "
        "data; a branch that "
        "is not always taken must still create its variables");
  }
  if (!spec.initializer)
    throw invalid_argument("the variable " + spec.describe() + " has no initializer");
  torch::NoGradGuard no_grad;
  Tensor value = spec.initializer(spec.shape, spec.dtype, derive_key(seed_, {id_of(spec.name)}));
  if (value.sizes() != at::IntArrayRef(spec.shape) || value.scalar_type() != spec.dtype) {
    throw invalid_argument(
        fmt::format("the initializer of {} gave {}", spec.describe(), describe(value)),
        "an initializer must return the shape and dtype it is asked for");
  }
  value = value.detach().contiguous();
  value.set_requires_grad(spec.trainable && at::isFloatingType(spec.dtype));
  variables_.push_back(std::make_unique<Variable>(spec, std::move(value)));
  by_name_[spec.name] = variables_.back().get();
  return *variables_.back();
}

std::vector<std::string> VariableTable::signature() const {
  std::vector<std::string> lines;
  lines.reserve(variables_.size());
  for (const auto& variable : variables_) lines.push_back(variable->spec().describe());
  return lines;
}

}  // namespace muster::distribute
