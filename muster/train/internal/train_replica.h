// One replica of one run of an Estimator, from its input to its end. Thread safety: each call
// belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <functional>

#include "muster/distribute/replica.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1::internal {

// How far a replica came before it threw.
struct Attempt {
  int64_t steps = 0;  // that it has made
  bool saved = false;
};

// Trains as train() documents, on this replica. `failing` is called before the other replicas learn
// that this one cannot continue. If it throws, `attempt` says how far it came, unless it is
// nullptr.
TrainResult train_replica(const ModelFn& model_fn, const InputFn& input_fn,
                          const TrainerOptions& options, distribute::Replica& replica,
                          const std::function<void()>& failing, Attempt* attempt = nullptr);

}  // namespace muster::inline v0_1::internal
