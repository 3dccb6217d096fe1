// All that training changes on a replica, by checkpoint name: variables, optimizer slots, counters.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/manager.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/replica_place.h"
#include "muster/distribute/served_state.h"
#include "muster/distribute/updater.h"
#include "muster/distribute/variable_table.h"

namespace muster::inline v0_1::distribute {

// A checkpoint that a run may continue from, as the chief has found it.
struct FoundCheckpoint {
  std::string prefix{};  // as messages name it
  Checkpoint checkpoint{};
  std::unique_ptr<CheckpointReader> reader{};  // of its tensors, where they stay on the disk

  // What it has of that name; undefined where it has none.
  Tensor tensor(const std::string& name) const;
};

// REQUIRES, of every call but find() and warm_start(): Updater::build() was called.
class MUSTER_PART_EXPORT ModelState {
 public:
  // The arguments must outlive the state.
  ModelState(const ReplicaPlace& place, VariableTable& table, Updater& updater, Exchange& exchange)
      : place_(place), table_(table), updater_(updater), exchange_(exchange) {}
  virtual ~ModelState() = default;
  ModelState(const ModelState&) = delete;
  ModelState& operator=(const ModelState&) = delete;

  // --- on the chief, before and after the build ---
  // The newest good checkpoint; nothing where there is none. Throws what
  // CheckpointManager::load_latest() throws.
  virtual std::optional<FoundCheckpoint> find(const CheckpointManager& checkpoints) const;
  // The variables get the values that `settings` choose: before the build (`built`: false) or after
  // it, wherever they lie then. The caller makes both calls. Throws what muster::warm_start()
  // throws.
  virtual void warm_start(FileSystem& fs, const WarmStartSettings& settings, uint64_t seed,
                          bool built);
  // Whether there is a state already that is further than any checkpoint: servers hold it. Nothing
  // needs to be restored then but restore_own().
  virtual bool goes_on() const { return false; }

  // --- on the chief, before share() ---
  // The state becomes that of the checkpoint. Throws InvalidArgument listing every difference
  // between the model and the checkpoint.
  virtual void restore(FoundCheckpoint& found);
  // The same with a checkpoint that may lack some of the state, which stays as it begins, and have
  // more, which is dropped.
  virtual void restore_in_part(FoundCheckpoint& found);
  // Where others live on servers, the variables that live here alone become what `value_of` gives
  // for their names; what does not fit, or is undefined, stays.
  virtual void restore_own(const std::function<Tensor(const std::string& name)>& /*value_of*/) {}

  // Views: writing them, on the chief before share(), sets the state. Where it lives on servers, a
  // copy.
  virtual std::map<std::string, Tensor> tensors();
  // tensors(), in which variables of kOnRead are aggregated over the replicas, and with several
  // replicas their own values as "<name>/replicas" [replicas, ...]; those of kConcat have the rows
  // of all. All replicas call it together.
  virtual std::map<std::string, Tensor> gather();
  // The same, for a checkpoint on the chief. Where the state lives on servers, what they wrote
  // themselves is in cut() in place of it. With `later` the result lacks all that servers hold, and
  // take_rest() gives what adds it.
  virtual std::map<std::string, Tensor> gather_for_checkpoint(bool /*later*/) { return gather(); }
  // Where the servers stood whose state was gathered last.
  const std::optional<ServedState::Cut>& cut() const { return cut_; }
  // ServedState::Cut::rest of cut(); nothing where all of it is here.
  std::function<void(ServedState::Cut& cut)> take_rest() {
    return cut_ ? std::exchange(cut_->rest, {}) : nullptr;
  }

  // Gives every replica the chief's state; all call it together. Variables of kOnRead get what the
  // checkpoint has for this replica when it was written by as many replicas, else the chief's
  // value, of which a sum stays the chief's alone. The rows of kConcat are divided again.
  void share();

  // After Replica::extend_build(): on the chief, tensors that are new since `known` get the values
  // that `kept` has for their names, which are taken from it; then every replica gets the chief's.
  // All call it together. Throws InvalidArgument, on the chief, for a value that does not fit.
  void share_new(const std::set<std::string>& known, std::map<std::string, Tensor>& kept,
                 const std::string& name_of_kept);

  // Variables that do not train are never exchanged between steps: what a model function writes
  // into them from its own part of the data would make the replicas drift apart, unnoticed. After
  // each update their versions are noted, and before the next they are compared. Throws
  // InvalidArgument naming a variable that was changed in between.
  void note_versions();
  void check_versions() const;

 protected:
  static TensorSpec spec_of(const Tensor& tensor);
  // All that lives here, as views.
  std::map<std::string, Tensor> here() const;
  void take_replica_values(std::map<std::string, Tensor>& tensors);

  const ReplicaPlace& place_;
  VariableTable& table_;
  Updater& updater_;
  std::optional<ServedState::Cut> cut_;  // without its tensors

 private:
  // Divides the rows a checkpoint has of a variable of kConcat.
  void take_rows(const Variable& variable, std::map<std::string, Tensor>& tensors);
  void share_replica_values();
  void share_values_of(Variable& variable);

  Exchange& exchange_;
  std::map<std::string, Tensor> replica_values_;  // [replicas, ...], by name, until share()
  std::vector<std::pair<const Variable*, int64_t>> versions_;
};

// Makes the state of a replica: one that lives here, or on servers, where `updater` shares a run
// with other workers. The arguments must outlive it.
std::unique_ptr<ModelState> make_model_state(const ReplicaPlace& place, VariableTable& table,
                                             Updater& updater, Exchange& exchange);

}  // namespace muster::inline v0_1::distribute
