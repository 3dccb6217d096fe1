// All that training changes on a replica, by checkpoint name: variables, optimizer slots, counters.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/replica_place.h"
#include "muster/distribute/shared_run.h"
#include "muster/distribute/updater.h"
#include "muster/distribute/variable_table.h"

namespace muster::inline v0_1::distribute {

// REQUIRES, of every call: Updater::build() was called.
class MUSTER_PART_EXPORT ModelState {
 public:
  // The arguments must outlive the state.
  ModelState(const ReplicaPlace& place, VariableTable& table, Updater& updater, Exchange& exchange)
      : place_(place), table_(table), updater_(updater), exchange_(exchange) {}

  // Views: writing them, on the chief before share(), sets the state. Where it lives on servers, a
  // copy.
  std::map<std::string, Tensor> tensors();
  // What a checkpoint holds on the chief: tensors(), in which variables of kOnRead are aggregated
  // over the replicas, and with several replicas their own values as "<name>/replicas" [replicas,
  // ...]; those of kConcat have the rows of all. Where the state lives on servers, what they wrote
  // themselves is in cut() in place of it. All replicas call it together.
  std::map<std::string, Tensor> gather_for_checkpoint();
  // Where the servers stood whose state was gathered last.
  const std::optional<SharedRun::Cut>& cut() const { return cut_; }
  // On the chief, before share(): the state becomes that of `checkpoint`, which was found at
  // `prefix`. Throws InvalidArgument listing every difference between the model and the checkpoint.
  void restore(Checkpoint& checkpoint, const std::string& prefix);
  // The same where the state lives on servers, without ever being here as a whole.
  void restore(const CheckpointReader& checkpoint, const std::string& prefix);
  // The variables that live here alone, where others live on servers, become what `value_of` gives
  // for their names; what does not fit, or is undefined, stays.
  void restore_own(const std::function<Tensor(const std::string& name)>& value_of);
  // Gives every replica the chief's state; all call it together. Variables of kOnRead get what the
  // checkpoint has for this replica when it was written by as many replicas, else the chief's
  // value, of which a sum stays the chief's alone. The rows of kConcat are divided anew.
  void share();

  // Variables that do not train are never exchanged between steps: what a model function writes
  // into them from its own part of the data would make the replicas drift apart, unnoticed. After
  // each update their versions are noted, and before the next they are compared. Throws
  // InvalidArgument naming a variable that was changed in between.
  void note_versions();
  void check_versions() const;

 private:
  // What the state consists of.
  std::map<std::string, TensorSpec> specs() const;
  // The variables that live here alone, where others live on servers.
  std::map<std::string, Tensor> own_tensors() const;
  std::map<std::string, Tensor> with_own(SharedRun::Cut cut);
  void take_replica_values(std::map<std::string, Tensor>& tensors);
  // Divides the rows a checkpoint has of a variable of kConcat.
  void take_rows(const Variable& variable, std::map<std::string, Tensor>& tensors);
  void share_replica_values();

  const ReplicaPlace& place_;
  VariableTable& table_;
  Updater& updater_;
  Exchange& exchange_;
  std::map<std::string, Tensor> replica_values_;  // [replicas, ...], by name, until share()
  std::vector<std::pair<const Variable*, int64_t>> versions_;
  std::optional<SharedRun::Cut> cut_;  // without its tensors
};

}  // namespace muster::inline v0_1::distribute
