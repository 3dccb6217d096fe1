// The checkpoints of a ClusterCoordinator. Thread safety: belongs to the chief's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/calls/cluster_coordinator.h"
#include "muster/calls/internal/remote_replica.h"
#include "muster/checkpoint/manager.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/failed_saves.h"
#include "muster/train/pending_save.h"

namespace muster::inline v0_1::distribute {

class CoordinatorSaves {
 public:
  // Takes CoordinatorOptions::model_dir for this run. The references outlive it; `cancelled`:
  // whether this task was asked to stop. Throws the errors of CheckpointWriter.
  CoordinatorSaves(const CoordinatorOptions& options, RemoteReplica& replica,
                   const std::function<bool()>& cancelled);

  // As Engine::find_checkpoint(), in model_dir.
  bool find_checkpoint();
  // Does what ClusterCoordinator::save() says.
  std::string save(const CoordinatorSaveOptions& options);
  // Saves as the program did last, for a server that was asked to stop; the checkpoint is there
  // when this returns, unless it may fail.
  void save_for_server();
  // Handles a save that the thread has written since. Throws its error.
  void look() { pending_.look(); }
  // Whether a thread writes a save.
  bool is_writing() const { return pending_.is_writing(); }
  // Does what ClusterCoordinator::end_saving() says.
  bool settle();
  // The step of the last checkpoint that is there; -1: none.
  int64_t saved_step() const { return saved_step_; }

 private:
  void note_saved(const std::string& prefix);

  const CoordinatorOptions& options_;
  RemoteReplica& replica_;
  const std::function<bool()>& cancelled_;
  const CheckpointManagerOptions keep_;
  CheckpointWriter writer_;
  FailedSaves failed_saves_{0, "CoordinatorSaveOptions.max_failed_saves"};
  PendingSave pending_;
  CoordinatorSaveOptions last_;  // of the program
  int64_t saved_step_ = -1;
  bool last_is_there_ = false;  // the last save has succeeded
};

}  // namespace muster::inline v0_1::distribute
