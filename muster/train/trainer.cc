#include "muster/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/elastic_run.h"
#include "muster/distribute/replica_threads.h"
#include "muster/train/internal/elastic_member.h"
#include "muster/train/internal/train_replica.h"
#include "muster/train/internal/watchdog.h"
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

// Trains on the replicas of this process, the first of which gives the result. `attempts`, one for
// each, or none.
TrainResult train_on(const std::vector<std::unique_ptr<Replica>>& replicas, const ModelFn& model_fn,
                     const InputFn& input_fn, const TrainerOptions& options,
                     std::vector<internal::Attempt>* attempts = nullptr) {
  const auto attempt = [&](size_t replica) {
    return attempts != nullptr ? &(*attempts)[replica] : nullptr;
  };
  if (replicas.size() == 1) {
    return internal::train_replica(
        model_fn, input_fn, options, *replicas[0], [] {}, attempt(0));
  }
  const InputFn shared = called_once(input_fn);
  TrainResult result;
  distribute::ReplicaThreads threads(replicas.size());
  threads.run([&](size_t replica, const std::function<void()>& failing) {
    const TrainResult mine = internal::train_replica(model_fn, shared, options, *replicas[replica],
                                                     failing, attempt(replica));
    if (replica == 0) result = mine;
  });
  return result;
}

// The hooks that began with an earlier group, when none began with another.
std::vector<std::shared_ptr<Hook>> hooks_of(const TrainerOptions& options) {
  std::vector<std::shared_ptr<Hook>> hooks = options.hooks;
  if (options.start.cluster.is_chief)
    hooks.insert(hooks.begin(), options.chief_hooks.begin(), options.chief_hooks.end());
  return hooks;
}

// They learn how the run ended.
void tell_hooks(const TrainerOptions& options, const Error& error) {
  const std::vector<std::shared_ptr<Hook>> hooks = hooks_of(options);
  for (auto hook = hooks.rbegin(); hook != hooks.rend(); ++hook) {
    try {
      (*hook)->on_error(error);
    } catch (const std::exception& another) {
      log::warning(fmt::format("a hook threw in on_error(): {}", another.what()));
    }
  }
}

// No other group came, and a thread of the chief may still write a checkpoint.
void end_saves(const TrainerOptions& options, internal::Attempt& attempt) {
  if (!attempt.saves) return;
  const int64_t written = RunSaves::end(*attempt.saves, [&](const std::string& prefix) {
    for (const auto& hook : hooks_of(options)) hook->after_save(checkpoint_step(prefix), prefix);
  });
  attempt.memory.saves.saved_step = std::max(attempt.memory.saves.saved_step, written);
  attempt.saves.reset();  // gives model_dir back
}

// Trains in one group of workers after another, until the run ends. What a worker knows goes from
// group to group in memory.
TrainResult train_elastic(const ModelFn& model_fn, const InputFn& input_fn,
                          const TrainerOptions& options) {
  const distribute::ElasticRun& elastic = *options.start.elastic;
  TrainerOptions again = options;
  std::vector<internal::Attempt> attempts;
  for (;;) {
    for (internal::Attempt& attempt : attempts)
      attempt.regroups = attempt.in_step = attempt.hooks_begun = false;
    try {
      const std::vector<std::unique_ptr<Replica>> replicas =
          options.strategy->start_replicas(again.start);
      attempts.resize(replicas.size());
      TrainResult result = train_on(replicas, model_fn, input_fn, again, &attempts);
      if (attempts[0].first_step >= 0) result.steps = result.global_step - attempts[0].first_step;
      if (!attempts[0].regroups) return result;
    } catch (const Error& error) {
      if (stop_signal() != 0 || !elastic.goes_on_after(error)) {
        if (!attempts.empty()) end_saves(options, attempts[0]);
        const bool began = !attempts.empty() && attempts[0].first_step >= 0;
        // The run ends between two groups, and so does not save by itself.
        if (began && options.start.cluster.is_chief && !attempts[0].in_step) {
          if (attempts[0].audit) attempts[0].audit->flush();
          internal::save_memory(options, attempts[0].memory);
        }
        if (began && !attempts[0].hooks_begun) tell_hooks(options, error);
        throw;
      }
      log::warning(fmt::format("{}; {}", error.message(), elastic.describe_next()));
    }
    // The state that goes on has the position of its data.
    again.restart_input = false;
    again.earlier_call.reset();
  }
}

}  // namespace

TrainResult train(const ModelFn& model_fn, const InputFn& input_fn, const TrainerOptions& options) {
  if (!options.strategy || options.params == nullptr) {
    throw invalid_argument("TrainerOptions has no strategy or no params",
                           "set both; an Estimator does");
  }
  // Without a cluster there are no other tasks to read of.
  std::function<std::string()> folder;
  if (!options.start.cluster.addresses.empty()) folder = [&options] { return options.model_dir; };
  const std::unique_ptr<internal::Watchdog> watchdog =
      internal::watchdog_of({.seconds = options.watchdog_seconds,
                             .is_chief = options.start.cluster.is_chief,
                             .at_own_pace = options.strategy->restart_timeout().count() > 0,
                             .fs = options.fs,
                             .folder = std::move(folder)});
  if (options.strategy->restart_timeout().count() > 0)
    return train_and_rejoin(model_fn, input_fn, options);
  if (options.start.elastic) return train_elastic(model_fn, input_fn, options);
  return train_on(options.strategy->start_replicas(options.start), model_fn, input_fn, options);
}

}  // namespace muster::inline v0_1
