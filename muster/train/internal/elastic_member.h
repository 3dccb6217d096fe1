// The part of one replica in an elastic run, in one group of workers: how it takes the state of the
// group before, and what it remembers for the next one. Thread safety: belongs to the replica's
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/elastic_run.h"
#include "muster/distribute/replica_input.h"
#include "muster/distribute/start_options.h"
#include "muster/train/engine.h"
#include "muster/train/internal/example_audit.h"
#include "muster/train/internal/non_finite_steps.h"
#include "muster/train/internal/train_replica.h"
#include "muster/train/run_saves.h"

namespace muster::inline v0_1::internal {

class ElasticMember {
 public:
  // All outlive it. REQUIRES: `start` has an elastic run.
  ElasticMember(const distribute::StartOptions& start, Engine& engine, RunSaves& saves,
                NonFiniteSteps& non_finite, Attempt& attempt);

  // --- when the group begins ---
  // Takes the state of the workers that have trained before, if one of them has any; all replicas
  // call it together, in place of Engine::find_checkpoint(). Returns whether it did.
  bool continue_from_memory();
  bool in_memory() const { return in_memory_; }
  const RunMemory& memory() const { return attempt_.memory; }
  // From here on this replica has the state of the group.
  void begin_group();
  // On the chief: the record of used examples of the group before, which continues with this one;
  // nullptr if there is none.
  std::shared_ptr<ExampleAudit> continue_audit(distribute::ReplicaInput& input);
  void keep_audit(std::shared_ptr<ExampleAudit> audit) { attempt_.audit = std::move(audit); }

  // --- while the group trains ---
  // Before a step: the batches of a step that is not applied are read again.
  void note_position(distribute::ReplicaInput& input, int64_t examples_of_step);
  bool has_newcomers() const { return engine_.replica().is_chief() && run_.has_newcomers(); }
  bool can_spare(int leaving) const { return run_.can_spare(leaving); }

  // --- when it ends ---
  // Whether another group can continue although this one ended with `error`.
  bool goes_on_after(const Error& error) const;
  // After a loss: remembers the state after the last whole step, if this replica had the state of
  // its group. `input` is nullptr before it is open; `last_step`: see RunMemory.
  void remember_loss(distribute::ReplicaInput* input, int64_t examples_of_step, int64_t last_step);
  // Before a change of the workers between two steps: the chief remembers the state. All replicas
  // call it together.
  void remember_together(distribute::ReplicaInput& input, int64_t examples_of_step,
                         int64_t last_step);

 private:
  void remember_state(const std::map<std::string, Tensor>& tensors, const nlohmann::json& position,
                      int64_t epoch, int64_t last_step);

  distribute::ElasticRun& run_;
  const int num_workers_;  // of the cluster
  Engine& engine_;
  RunSaves& saves_;
  NonFiniteSteps& non_finite_;
  Attempt& attempt_;
  bool in_memory_ = false;
  int64_t begun_at_ = 0;        // the step after which the group began
  nlohmann::json position_;     // of the input, before the batches of the next step,
  int64_t position_step_ = -1;  // which follows this one; -1: none is noted
};

// On the chief of an elastic run that ends without another group: saves the state in `memory`,
// unless it is saved. A save that fails is a warning.
void save_memory(const TrainerOptions& options, const RunMemory& memory);

}  // namespace muster::inline v0_1::internal
