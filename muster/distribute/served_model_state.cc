// The state of a worker whose weights live on parameter servers: it holds little itself, and the
// chief reads and writes the rest there.
#include <utility>

#include "muster/checkpoint/warm_start.h"
#include "muster/distribute/model_state.h"
#include "muster/distribute/replica_values.h"
#include "muster/distribute/shared_run.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

class ServedModelState final : public ModelState {
 public:
  ServedModelState(const ReplicaPlace& place, VariableTable& table, Updater& updater,
                   Exchange& exchange)
      : ModelState(place, table, updater, exchange), run_(*updater.shared()) {}

  // It stays on the disk, where servers read it.
  std::optional<FoundCheckpoint> find(const CheckpointManager& checkpoints) const override {
    FoundCheckpoint found;
    const auto prefix = checkpoints.find_latest([&](const std::string& candidate) {
      found.reader = checkpoints.open(candidate);
      servers().verify(*found.reader, candidate);
    });
    if (!prefix) return std::nullopt;
    found.prefix = *prefix;
    found.checkpoint = found.reader->header();
    return found;
  }

  void warm_start(FileSystem& fs, const WarmStartSettings& settings, uint64_t seed,
                  bool built) override {
    if (!built || goes_on()) return;
    const WarmStartReport report = muster::warm_start(
        fs, settings, table_, seed, [&](const Variable& table, int64_t begin, const Tensor& rows) {
          servers().write_rows(table.name(), begin, rows);
        });
    const std::map<std::string, TensorSpec> theirs = servers().specs();
    std::map<std::string, Tensor> weights;
    for (const auto& taken : report.taken) {
      const Variable& variable = *table_.find(taken.name);
      if (theirs.contains(taken.name) && !variable.is_elsewhere())
        weights[taken.name] = variable.value().detach();
    }
    servers().write(weights);
    servers().begin_slots();
  }

  bool goes_on() const override { return run_.live(); }

  std::map<std::string, Tensor> tensors() override { return with_own(servers().read()); }
  std::map<std::string, Tensor> gather() override { return tensors(); }
  std::map<std::string, Tensor> gather_for_checkpoint(bool later) override {
    cut_.reset();  // the rest of one that was not saved goes before the next one comes
    return with_own(servers().read_for_checkpoint(later));
  }

  // It is never here as a whole.
  void restore(FoundCheckpoint& checkpoint) override {
    const CheckpointReader& reader = *checkpoint.reader;
    const std::map<std::string, Tensor> own = own_tensors();
    // Only a little is here; for the rest the form is enough.
    std::map<std::string, Tensor> read;
    std::map<std::string, TensorSpec> found = reader.specs();
    found.erase(kGlobalStep);
    for (const auto& [name, tensor] : own) {
      for (const std::string& wanted : {name, replicas_name(name)}) {
        if (found.erase(wanted) > 0) read[wanted] = reader.read(wanted);
      }
    }
    take_replica_values(read);
    for (const auto& [name, tensor] : read) found[name] = spec_of(tensor);
    std::map<std::string, TensorSpec> wanted = servers().specs();
    for (const auto& [name, tensor] : own) wanted[name] = spec_of(tensor);
    compare(wanted, found, checkpoint.prefix).throw_if_incompatible();
    torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : own) Tensor(tensor).copy_(read.at(name));
    servers().restore(reader, checkpoint.prefix);
  }

  void restore_in_part(FoundCheckpoint& found) override {
    std::map<std::string, Tensor> theirs;
    for (const auto& [name, spec] : servers().specs()) {
      const Tensor value = found.tensor(name);
      if (value.defined() && value.sizes() == at::IntArrayRef(spec.shape) &&
          value.scalar_type() == spec.dtype)
        theirs[name] = value;
    }
    servers().write(theirs);
    restore_own([&](const std::string& name) { return found.tensor(name); });
  }

  void restore_own(const std::function<Tensor(const std::string& name)>& value_of) override {
    torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : own_tensors()) {
      const Tensor value = value_of(name);
      if (value.defined() && value.sizes() == tensor.sizes()) Tensor(tensor).copy_(value);
    }
  }

 private:
  ServedState& servers() const { return run_.state(); }

  // The variables that live here alone.
  std::map<std::string, Tensor> own_tensors() const {
    const std::map<std::string, TensorSpec> elsewhere = servers().specs();
    std::map<std::string, Tensor> named = here();
    std::erase_if(named, [&](const auto& entry) { return elsewhere.contains(entry.first); });
    return named;
  }

  std::map<std::string, Tensor> with_own(ServedState::Cut cut) {
    cut_ = std::move(cut);
    std::map<std::string, Tensor> named = std::exchange(cut_->tensors, {});
    named.merge(own_tensors());
    return named;
  }

  SharedRun& run_;
};

}  // namespace

std::unique_ptr<ModelState> make_model_state(const ReplicaPlace& place, VariableTable& table,
                                             Updater& updater, Exchange& exchange) {
  if (updater.shared() != nullptr)
    return std::make_unique<ServedModelState>(place, table, updater, exchange);
  return std::make_unique<ModelState>(place, table, updater, exchange);
}

}  // namespace muster::inline v0_1::distribute
