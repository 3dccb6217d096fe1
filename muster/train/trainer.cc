#include "muster/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribute/replica_threads.h"
#include "muster/train/internal/train_replica.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

using distribute::Replica;

// Trains on a replica that may lose the others, and joins them again when it does: a server, or
// this task itself, was away for a while. It gives up where it makes no step for too long.
TrainResult train_and_rejoin(const ModelFn& model_fn, const InputFn& input_fn,
                             const TrainerOptions& options) {
  Clock& clock = options.clock != nullptr ? *options.clock : system_clock();
  const double patience = options.strategy->restart_timeout().count();
  TimePoint last_progress = clock.now();
  distribute::StartOptions start = options.start;
  TrainerOptions again = options;
  while (true) {
    internal::Attempt attempt;
    try {
      const auto replica = options.strategy->start(start);
      return internal::train_replica(
          model_fn, input_fn, again, *replica, [] {}, &attempt);
    } catch (const Error& error) {
      if (attempt.steps > 0) last_progress = clock.now();
      // This run's own checkpoint has the position of its data.
      if (attempt.saved) again.restart_input = false;
      const double waited = to_seconds(clock.now() - last_progress);
      const bool stops = stop_signal() != 0 || (options.asked_to_end && options.asked_to_end());
      if (error.kind() != ErrorKind::kPeerLost || stops || waited >= patience) throw;
      log::warning(fmt::format("{}; this task will rejoin the run when all tasks are connected",
                               error.message()));
      start.join_timeout = std::max(1.0, patience - waited);
    }
    clock.sleep_for(from_seconds(0.5));
  }
}

}  // namespace

TrainResult train(const ModelFn& model_fn, const InputFn& input_fn, const TrainerOptions& options) {
  if (!options.strategy || options.params == nullptr) {
    throw invalid_argument("TrainerOptions has no strategy or no params",
                           "set both; an Estimator does");
  }
  if (options.strategy->restart_timeout().count() > 0)
    return train_and_rejoin(model_fn, input_fn, options);
  const std::vector<std::unique_ptr<Replica>> replicas =
      options.strategy->start_replicas(options.start);
  if (replicas.size() == 1) {
    return internal::train_replica(model_fn, input_fn, options, *replicas[0], [] {});
  }
  const InputFn shared = called_once(input_fn);
  TrainResult result;
  distribute::ReplicaThreads threads(replicas.size());
  threads.run([&](size_t replica, const std::function<void()>& failing) {
    const TrainResult mine =
        internal::train_replica(model_fn, shared, options, *replicas[replica], failing);
    if (replica == 0) result = mine;
  });
  return result;
}

}  // namespace muster::inline v0_1
