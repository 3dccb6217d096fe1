// What a worker of an elastic run keeps in memory from one group to the next: the state after its
// last whole step, as a checkpoint would hold it, notes included. Thread safety: a value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/replica.h"
#include "muster/train/engine.h"
#include "muster/train/run_saves.h"
#include "muster/train/save_timer.h"

namespace muster::inline v0_1::internal {

struct RunMemory {
  // The process of the chief under which it was trained, by an id that this process draws; ""
  // before the first group. On the chief: its own.
  std::string chief{};
  int64_t epoch = -1;  // of the group that trained it; -1: this worker has no state
  std::shared_ptr<const Checkpoint> state = nullptr;
  bool whole = true;         // false: `state` may lack some of the variables, and has no positions
  SaveTimer::Marks saves{};  // of the run's last save
  // A save that a thread of the chief still writes. For each group, the chief says it.
  RunSaves::InFlight in_flight{};
  int64_t last_step = -1;  // at which the run ends, as TrainerOptions::max_steps; -1: its input
  // Of the run so far, for its non_finite_limit.
  int64_t skipped_steps = 0;
  int64_t roll_backs = 0;
};

// The step after which `engine` stands, with its state and the position `inputs` of its data, which
// is in `epoch`. `named` are the tensors; all are copied to the CPU.
std::shared_ptr<const Checkpoint> remember(const Engine& engine,
                                           const std::map<std::string, Tensor>& named,
                                           const nlohmann::json& inputs, int64_t epoch = 0,
                                           const std::map<std::string, std::string>& notes = {});

// All replicas call it together, each with what it has. The state that find_donor() chooses becomes
// that from which `engine` continues: find_checkpoint() is not needed then. False when none has a
// state. `mine` gets the marks, the last step and the counts that come with it. A state of another
// chief's process is forgotten.
bool continue_from_memory(Engine& engine, RunMemory& mine);

}  // namespace muster::inline v0_1::internal
