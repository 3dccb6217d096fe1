// The training loop: one run of a model function over an input, from build to the last checkpoint.
// Thread safety: one thread. Several trainers may run in several threads.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/hook.h"
#include "muster/train/input_fn.h"
#include "muster/train/non_finite_policy.h"
#include "muster/train/results.h"
#include "muster/train/save_together.h"

namespace muster::inline v0_1::distribute {
class Replica;
}

namespace muster::inline v0_1 {

// All a training run needs besides its two functions; what an Estimator fills from its RunConfig.
struct TrainerOptions {
  std::string model_dir{};
  distribute::StrategyPtr strategy{};  // required
  distribute::StartOptions start{};
  const nlohmann::json* params = nullptr;  // required; must outlive the run
  std::optional<int64_t> steps{};          // more steps from where the run starts
  std::optional<int64_t> max_steps{};      // the global step to end at
  int64_t accumulate_steps = 1;            // batches that make one step; at least 1
  std::optional<int64_t>
      save_checkpoints_steps{};  // exactly one of the two, or none: no checkpoints
  std::optional<double> save_checkpoints_secs{};
  int keep_checkpoint_max = 5;
  double keep_checkpoint_every_n_hours = 10000;
  // So many saves in a row may fail, and the run continues; one more ends it. The first of a run,
  // which proves that it can save, and the last of it must not fail. Unset: 2 where model_dir is in
  // a store, 0 on a disk. The chief's counts.
  std::optional<int64_t> max_failed_saves{};
  // A thread of the chief writes each checkpoint while the run makes steps, except those that must
  // not fail. The same on all workers.
  bool asynchronous_saves = false;
  // As CheckpointManagerOptions::keep, on the chief.
  std::function<bool(const std::string& prefix)> keep_checkpoint{};
  std::vector<std::shared_ptr<Hook>> hooks{};        // on every worker
  std::vector<std::shared_ptr<Hook>> chief_hooks{};  // on the chief only, before `hooks`
  // What becomes of a step whose loss or gradients are not finite, and how often in one run. The
  // same on all workers.
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  int64_t non_finite_limit = 10;
  // train_metrics of the first step and of every so many are read; 0: never. The same on all
  // workers.
  int64_t metrics_every_steps = 100;
  // ModelContext::summary() of the first step and of every so many is gathered; 0: never. The same
  // on all workers.
  int64_t summary_every_steps = 0;
  bool restart_input = false;  // a run that continues keeps the weights and begins its input again
  // How an earlier call of this program ended. Where the run continues from there and nothing is
  // left of its input, the input begins again, with its next pass. The same on all workers.
  struct EarlierCall {
    int64_t step{};
    bool input_ended{};
  };
  std::optional<EarlierCall> earlier_call{};
  // Whether the program asks the run to end, as a hook may; empty: never. `start.cancelled` is true
  // then, too.
  std::function<bool()> asked_to_end{};
  // What a run without a checkpoint begins with, in place of initial values.
  std::optional<WarmStartSettings> warm_start_from{};
  bool trace = false;  // print where a step's time went
  bool audit = false;  // write which examples were used; the same on all workers
  // Seconds below which no step is reported as one that takes too long; 0: none is reported.
  double watchdog_seconds = 30;
  FileSystem* fs = nullptr;  // nullptr: that of the path
  Clock* clock = nullptr;    // nullptr: the system's
  // Called on every worker after a checkpoint was written, or, with asynchronous_saves, while a
  // thread of the chief writes it; the others wait for the chief at a barrier while it is busy
  // here. Not called for the checkpoint a run starts with.
  std::function<void(int64_t global_step, const Saved&, distribute::Replica&)> after_save{};
  // Asked on the chief for the evaluations that were made since it was asked last: hooks are told.
  std::function<std::vector<Evaluation>()> take_evaluations{};
  // Called on every worker when the run is over, before hooks end and before it leaves the group;
  // `trained`: whether any step was made.
  std::function<void(int64_t global_step, bool trained, distribute::Replica&)> at_end{};
};

// Throws InvalidArgument, NotFound, Corrupt for what the user can repair; NonFinite before anything
// is saved; PeerLost, Timeout, Unavailable when another task failed; Cancelled after saving when
// this task was asked to stop.
TrainResult train(const ModelFn& model_fn, const InputFn& input_fn, const TrainerOptions& options);

}  // namespace muster::inline v0_1
