#include "muster/distribute/variable_table.h"

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

namespace {

void check_synchronization(const VariableSpec& spec) {
  const bool concat = spec.aggregation == VariableAggregation::kConcat;
  const bool on_read = spec.synchronization == VariableSynchronization::kOnRead;
  if (concat && (!on_read || spec.shape.empty())) {
    throw invalid_argument(
        fmt::format("the variable {} has the aggregation kConcat", spec.describe()),
        "kConcat needs kOnRead and an axis of rows");
  }
  if (!on_read) return;
  if (spec.trainable) {
    throw invalid_argument(
        fmt::format("the variable {} trains, and its synchronization is kOnRead", spec.describe()),
        "set trainable = false, or leave the synchronization at kOnWrite: replicas keep in step "
        "only in what is brought together at every update");
  }
  if (spec.aggregation == VariableAggregation::kMean && !at::isFloatingType(spec.dtype)) {
    throw invalid_argument(
        fmt::format("the variable {} holds whole numbers, and is to be read as their mean over "
                    "the replicas",
                    spec.describe()),
        "set its aggregation to kSum or kOnlyFirstReplica, or use float32");
  }
}

// A step touches few rows of such a table, and a regularizer or a norm along the rows all of them.
void check_row_sparse(const VariableSpec& spec) {
  if (!spec.row_sparse) return;
  const auto refuse = [&](const std::string& what, const std::string& why) {
    throw invalid_argument(fmt::format("the variable {} has the {}", spec.describe(), what),
                           why +
                               "; make it one that is not row-sparse: Embedding takes "
                               "{.row_sparse = false}");
  };
  if (spec.regularizer) {
    refuse("regularizer " + spec.regularizer.description(),
           "a penalty changes every row in every step, whether it was used or not");
  }
  if (spec.constraint && !spec.constraint.by_rows(static_cast<int64_t>(spec.shape.size()))) {
    refuse("constraint " + spec.constraint.description(),
           "of a row-sparse variable only the rows that were used are known, so a norm is taken "
           "along other axes than 0");
  }
}

}  // namespace

Variable* VariableTable::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void VariableTable::bring_here(Variable& variable) {
  if (!is_elsewhere(variable.spec())) return;
  const torch::NoGradGuard no_grad;
  const bool trains = variable.value().requires_grad();
  variable.value() = made_value(variable.spec());
  variable.value().set_requires_grad(trains);
  variable.read_rows_by({});
}

Tensor VariableTable::initial_value(const VariableSpec& spec) const {
  if (!is_elsewhere(spec)) return made_value(spec);
  return torch::zeros({}, at::device(device_).dtype(spec.dtype)).expand(spec.shape);
}

Tensor VariableTable::made_value(const VariableSpec& spec) const {
  Tensor value = spec.initializer(spec.shape, spec.dtype, derive_key(seed_, {id_of(spec.name)}));
  if (value.sizes() != at::IntArrayRef(spec.shape) || value.scalar_type() != spec.dtype) {
    throw invalid_argument(
        fmt::format("the initializer of {} gave {}", spec.describe(), describe(value)),
        "an initializer must return the shape and dtype it is asked for");
  }
  return value.detach().to(device_).contiguous();
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
  check_synchronization(spec);
  check_row_sparse(spec);
  if (!spec.initializer)
    throw invalid_argument("the variable " + spec.describe() + " has no initializer");
  torch::NoGradGuard no_grad;
  Tensor value = initial_value(spec);
  value.set_requires_grad(spec.trainable && at::isFloatingType(spec.dtype));
  variables_.push_back(std::make_unique<Variable>(spec, std::move(value)));
  Variable& created = *variables_.back();
  if (is_elsewhere(spec)) {
    created.read_rows_by([options = created.value().options().requires_grad(false),
                          shape = spec.shape](const Tensor& ids) {
      Shape rows = shape;
      rows[0] = ids.numel();
      return torch::zeros(rows, options);
    });
  }
  by_name_[spec.name] = &created;
  if (spec.synchronization == VariableSynchronization::kOnRead) {
    on_read_.push_back(&created);
    initial_.push_back(created.value().clone());
  }
  return created;
}

void VariableTable::seal() {
  if (sealed_) return;
  sealed_ = true;
  put_back_on_read(initial_);
  initial_.clear();
}

void VariableTable::open() {
  if (!sealed_) return;
  sealed_ = false;
  for (const Variable* variable : on_read_) initial_.push_back(variable->value().detach().clone());
}

void VariableTable::seal_as_is() {
  sealed_ = true;
  initial_.clear();
}

void VariableTable::note_assigned(const Variable& variable) {
  if (sealed_) return;
  const auto found = std::find(on_read_.begin(), on_read_.end(), &variable);
  if (found != on_read_.end())
    initial_[static_cast<size_t>(found - on_read_.begin())] = variable.value().detach().clone();
}

std::vector<Tensor> VariableTable::copy_on_read() const {
  std::vector<Tensor> values;
  values.reserve(on_read_.size());
  for (const Variable* variable : on_read_) {
    values.push_back(variable->spec().written_without_rows ? Tensor() : variable->value().clone());
  }
  return values;
}

void VariableTable::put_back_on_read(const std::vector<Tensor>& values) {
  torch::NoGradGuard no_grad;
  for (size_t v = 0; v < values.size(); ++v) {
    if (values[v].defined()) on_read_[v]->value().copy_(values[v]);
  }
}

std::vector<std::string> VariableTable::signature() const {
  std::vector<std::string> lines;
  lines.reserve(variables_.size());
  for (const auto& variable : variables_) {
    const VariableSpec& spec = variable->spec();
    lines.push_back(spec.describe());
    for (const std::string& rule : {spec.regularizer.description(), spec.constraint.description()})
      lines.back() += rule.empty() ? "" : " " + rule;
  }
  return lines;
}

}  // namespace muster::inline v0_1::distribute
