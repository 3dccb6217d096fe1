#include "muster/distribute/model_state.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/warm_start.h"
#include "muster/distribute/replica_values.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

Tensor FoundCheckpoint::tensor(const std::string& name) const {
  if (reader) return reader->specs().contains(name) ? reader->read(name) : Tensor();
  const auto known = checkpoint.tensors.find(name);
  return known == checkpoint.tensors.end() ? Tensor() : known->second;
}

std::optional<FoundCheckpoint> ModelState::find(const CheckpointManager& checkpoints) const {
  auto loaded = checkpoints.load_latest();
  if (!loaded) return std::nullopt;
  return FoundCheckpoint{.prefix = std::move(loaded->prefix),
                         .checkpoint = std::move(loaded->checkpoint)};
}

void ModelState::warm_start(FileSystem& fs, const WarmStartSettings& settings, uint64_t seed,
                            bool built) {
  if (built) return;
  // First, since sealing puts statistics back to their initial values. And slots that begin as the
  // weights are made after it.
  table_.seal();
  muster::warm_start(fs, settings, table_, seed);
}

TensorSpec ModelState::spec_of(const Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.scalar_type()};
}

std::map<std::string, Tensor> ModelState::here() const {
  std::map<std::string, Tensor> named = updater_.slots();
  for (const auto& variable : table_.variables())
    named[variable->name()] = variable->value().detach();
  return named;
}

std::map<std::string, Tensor> ModelState::tensors() { return here(); }

std::map<std::string, Tensor> ModelState::gather() {
  std::map<std::string, Tensor> named = here();
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
  if (found == tensors.end()) return;  // compare() reports it
  if (is_concatenation(spec, found->second, place_.replicas())) {
    const Tensor values = found->second.view(replicas_shape(spec, place_.replicas()));
    replica_values_[spec.name] = values;
    found->second = values[0];
    return;
  }
  log::info(fmt::format(
      "{} starts with its initial value: in the checkpoint it is {}, for batches of other sizes",
      spec.describe(), describe(found->second)));
  found->second = variable.value().detach().clone();
}

void ModelState::restore(FoundCheckpoint& found) {
  take_replica_values(found.checkpoint.tensors);
  const std::map<std::string, Tensor> all = here();
  std::map<std::string, TensorSpec> specs;
  for (const auto& [name, tensor] : all) specs[name] = spec_of(tensor);
  compare(specs, found.checkpoint, found.prefix).throw_if_incompatible();
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : all) Tensor(tensor).copy_(found.checkpoint.tensors.at(name));
}

void ModelState::restore_in_part(FoundCheckpoint& found) {
  std::map<std::string, Tensor> complete;
  std::map<std::string, Tensor>& known = found.checkpoint.tensors;
  for (const auto& [name, begun] : here()) {
    const auto its = known.find(name);
    const bool fits = its != known.end() && its->second.sizes() == begun.sizes() &&
                      its->second.scalar_type() == begun.scalar_type();
    complete[name] = fits ? its->second : begun.clone();
    const auto replicas = known.find(replicas_name(name));
    if (fits && replicas != known.end()) complete[replicas->first] = replicas->second;
  }
  known = std::move(complete);
  restore(found);
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

void ModelState::share_new(const std::set<std::string>& known, std::map<std::string, Tensor>& kept,
                           const std::string& name_of_kept) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, Tensor> added;
  std::map<std::string, TensorSpec> needed;
  Checkpoint found;
  for (const auto& [name, tensor] : here()) {
    if (known.contains(name)) continue;
    added[name] = tensor;
    if (!kept.contains(name)) continue;
    needed[name] = spec_of(tensor);
    found.tensors[name] = kept.at(name);
    kept.erase(name);
  }
  for (const Variable* variable : table_.on_read()) {
    if (known.contains(variable->name())) continue;
    const auto values = kept.find(replicas_name(variable->name()));
    if (values == kept.end()) continue;
    if (values->second.dim() > 0 && values->second.size(0) == place_.replicas())
      replica_values_[variable->name()] = values->second;
    kept.erase(values);
  }
  compare(needed, found, name_of_kept).throw_if_incompatible();
  for (const auto& [name, value] : found.tensors) Tensor(added.at(name)).copy_(value);
  if (place_.replicas() == 1) {
    replica_values_.clear();
    return;
  }
  std::vector<Tensor> values;
  for (const auto& [name, tensor] : added) {
    const Variable* variable = table_.find(name);
    const bool on_read =
        variable != nullptr && variable->spec().synchronization == VariableSynchronization::kOnRead;
    if (!on_read) values.push_back(tensor);
  }
  if (!values.empty()) exchange_.broadcast(values);
  for (Variable* variable : table_.on_read()) {
    if (!known.contains(variable->name())) share_values_of(*variable);
  }
  replica_values_.clear();
  note_versions();
}

void ModelState::share_replica_values() {
  for (Variable* variable : table_.on_read()) share_values_of(*variable);
  replica_values_.clear();
}

void ModelState::share_values_of(Variable& variable) {
  torch::NoGradGuard no_grad;
  const auto known = replica_values_.find(variable.name());
  const Tensor values = (known != replica_values_.end()
                             ? known->second
                             : spread(variable.spec(), variable.value(), place_.replicas()))
                            .to(place_.device)
                            .contiguous();
  exchange_.broadcast({values});
  variable.value().copy_(values[place_.replica()]);
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
        "change it in TrainOp::updates, by values that are equal on every replica, or set its "
        "synchronization to kOnRead: each replica then has its own value, and a checkpoint holds "
        "all of them and their aggregate");
  }
}

}  // namespace muster::inline v0_1::distribute
