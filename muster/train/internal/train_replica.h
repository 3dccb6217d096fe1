// One replica of one run of an Estimator, from its input to its end. Thread safety: each call
// belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "muster/distribute/replica.h"
#include "muster/train/run_memory.h"
#include "muster/train/run_saves.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1::internal {

class ExampleAudit;

// How far a replica came before it threw.
struct Attempt {
  int64_t steps = 0;  // that it has made
  bool saved = false;
  // Of an elastic run: the state that this worker begins with, if another group comes before it has
  // made one; and the one it ended with.
  RunMemory memory{};
  // Of an elastic run: whether this worker has the state of the present group; and on the chief the
  // record of used examples, if the run has one.
  bool in_step = false;
  // Of an elastic run: whether hooks have begun with the present group.
  bool hooks_begun = false;
  std::shared_ptr<ExampleAudit> audit = nullptr;
  // Of an elastic run: what this replica keeps for the next group.
  std::shared_ptr<RunSaves::Kept> saves = nullptr;
  int64_t first_step = -1;  // after which this worker began
  // Of an elastic run that did not throw: another group goes on, in which this worker is.
  bool regroups = false;
};

// Trains as train() documents, on this replica. `failing` is called before the other replicas learn
// that this one cannot continue. If it throws, `attempt` says how far it came, unless it is
// nullptr. An elastic run needs one.
TrainResult train_replica(const ModelFn& model_fn, const InputFn& input_fn,
                          const TrainerOptions& options, distribute::Replica& replica,
                          const std::function<void()>& failing, Attempt* attempt = nullptr);

}  // namespace muster::inline v0_1::internal
