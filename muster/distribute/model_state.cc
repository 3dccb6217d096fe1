#include "muster/distribute/model_state.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribute/replica_values.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

std::map<std::string, Tensor> ModelState::own_tensors() const {
  const std::map<std::string, TensorSpec> elsewhere = updater_.shared()->specs();
  std::map<std::string, Tensor> named = updater_.slots();
  for (const auto& variable : table_.variables())
    named[variable->name()] = variable->value().detach();
  std::erase_if(named, [&](const auto& entry) { return elsewhere.contains(entry.first); });
  return named;
}

std::map<std::string, Tensor> ModelState::with_own(SharedRun::Cut cut) {
  cut_ = std::move(cut);
  std::map<std::string, Tensor> named = std::exchange(cut_->tensors, {});
  named.merge(own_tensors());
  return named;
}

std::map<std::string, TensorSpec> ModelState::specs() const {
  const auto spec_of = [](const Tensor& tensor) {
    return TensorSpec{tensor.sizes().vec(), tensor.scalar_type()};
  };
  std::map<std::string, TensorSpec> all;
  if (SharedRun* shared = updater_.shared()) {
    all = shared->specs();
    for (const auto& [name, tensor] : own_tensors()) all[name] = spec_of(tensor);
    return all;
  }
  for (const auto& [name, tensor] : updater_.slots()) all[name] = spec_of(tensor);
  for (const auto& variable : table_.variables())
    all[variable->name()] = spec_of(variable->value());
  return all;
}

std::map<std::string, Tensor> ModelState::tensors() {
  if (SharedRun* shared = updater_.shared()) return with_own(shared->read());
  std::map<std::string, Tensor> named = updater_.slots();
  for (const auto& variable : table_.variables())
    named[variable->name()] = variable->value().detach();
  return named;
}

std::map<std::string, Tensor> ModelState::gather_for_checkpoint() {
  if (SharedRun* shared = updater_.shared()) return with_own(shared->read_for_checkpoint());
  std::map<std::string, Tensor> named = tensors();
  if (place_.replicas() == 1) return named;
  for (const Variable* variable : table_.on_read()) {
    const VariableSpec& spec = variable->spec();
    const std::vector<Tensor> parts = exchange_.gather(variable->value().detach().view({1, -1}), 0);
    const Tensor values = torch::cat(parts, 0).view(replicas_shape(spec, place_.replicas()));
    named[spec.name] = aggregate(spec, values);
    if (spec.aggregation != VariableAggregation::kConcat) named[replicas_name(spec.name)] = values;
  }
  return named;
}

void ModelState::take_replica_values(std::map<std::string, Tensor>& tensors) {
  replica_values_.clear();
  for (const Variable* variable : table_.on_read()) {
    if (variable->spec().aggregation == VariableAggregation::kConcat) {
      take_rows(*variable, tensors);
      continue;
    }
    const auto found = tensors.find(replicas_name(variable->name()));
    if (found == tensors.end() || found->second.dim() == 0 ||
        found->second.scalar_type() != variable->spec().dtype ||
        found->second.sizes().slice(1) != at::IntArrayRef(variable->spec().shape)) {
      continue;
    }
    if (found->second.size(0) == place_.replicas())
      replica_values_[variable->name()] = found->second;
    tensors.erase(found);
  }
}

void ModelState::take_rows(const Variable& variable, std::map<std::string, Tensor>& tensors) {
  const VariableSpec& spec = variable.spec();
  const auto found = tensors.find(spec.name);
  if (found == tensors.end()) return;  // compare() tells
  if (is_concatenation(spec, found->second, place_.replicas())) {
    const Tensor values = found->second.view(replicas_shape(spec, place_.replicas()));
    replica_values_[spec.name] = values;
    found->second = values[0];
    return;
  }
  log::info(fmt::format("{} begins anew: the checkpoint has it as {}, for batches of other sizes",
                        spec.describe(), describe(found->second)));
  found->second = variable.value().detach().clone();
}

void ModelState::restore(Checkpoint& checkpoint, const std::string& prefix) {
  take_replica_values(checkpoint.tensors);
  compare(specs(), checkpoint, prefix).throw_if_incompatible();
  torch::NoGradGuard no_grad;
  SharedRun* shared = updater_.shared();
  for (const auto& [name, tensor] : shared != nullptr ? own_tensors() : tensors())
    Tensor(tensor).copy_(checkpoint.tensors.at(name));
  if (shared == nullptr) return;
  std::map<std::string, Tensor> theirs;
  for (const auto& [name, spec] : shared->specs()) theirs[name] = checkpoint.tensors.at(name);
  shared->write(theirs);
}

void ModelState::restore(const CheckpointReader& checkpoint, const std::string& prefix) {
  SharedRun& shared = *updater_.shared();
  const std::map<std::string, Tensor> own = own_tensors();
  // What is here alone is little; of the rest the form is enough.
  Checkpoint here;
  std::map<std::string, TensorSpec> found = checkpoint.specs();
  found.erase(kGlobalStep);
  for (const auto& [name, tensor] : own) {
    for (const std::string& wanted : {name, replicas_name(name)}) {
      if (found.erase(wanted) > 0) here.tensors[wanted] = checkpoint.read(wanted);
    }
  }
  take_replica_values(here.tensors);
  for (const auto& [name, tensor] : here.tensors)
    found[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  compare(specs(), found, prefix).throw_if_incompatible();
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) Tensor(tensor).copy_(here.tensors.at(name));
  shared.restore(checkpoint, prefix);
}

void ModelState::restore_own(const std::function<Tensor(const std::string& name)>& value_of) {
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own_tensors()) {
    const Tensor value = value_of(name);
    if (value.defined() && value.sizes() == tensor.sizes()) Tensor(tensor).copy_(value);
  }
}

void ModelState::share() {
  if (place_.replicas() == 1) return;
  std::vector<Tensor> values = updater_.pieces();
  for (const auto& variable : table_.variables()) {
    if (variable->value().requires_grad()) continue;  // in the pieces
    if (variable->spec().synchronization == VariableSynchronization::kOnRead) continue;
    values.push_back(variable->value());
  }
  exchange_.broadcast(values);
  share_replica_values();
  note_versions();
}

void ModelState::share_replica_values() {
  torch::NoGradGuard no_grad;
  for (Variable* variable : table_.on_read()) {
    const auto known = replica_values_.find(variable->name());
    const Tensor values = (known != replica_values_.end()
                               ? known->second
                               : spread(variable->spec(), variable->value(), place_.replicas()))
                              .to(place_.device)
                              .contiguous();
    exchange_.broadcast({values});
    variable->value().copy_(values[place_.replica()]);
  }
  replica_values_.clear();
}

void ModelState::note_versions() {
  if (place_.replicas() == 1) return;
  versions_.clear();
  for (const auto& variable : table_.variables()) {
    const VariableAggregation aggregation = variable->spec().aggregation;
    if (variable->value().requires_grad() || aggregation == VariableAggregation::kNone ||
        aggregation == VariableAggregation::kOnlyFirstReplica ||
        variable->spec().synchronization == VariableSynchronization::kOnRead) {
      continue;
    }
    versions_.emplace_back(variable.get(), variable->value()._version());
  }
}

void ModelState::check_versions() const {
  for (const auto& [variable, version] : versions_) {
    if (variable->value()._version() == version) continue;
    throw invalid_argument(
        fmt::format("not supported: the model function changed the variable {}, which does not "
                    "train, and {} replicas would each have another value of it",
                    variable->name(), place_.replicas()),
        "change it in TrainOp::updates, by what is equal on every replica, or set its "
        "synchronization to kOnRead: then each has its own value, and a checkpoint holds them "
        "and what its aggregation makes of them");
  }
}

}  // namespace muster::inline v0_1::distribute
