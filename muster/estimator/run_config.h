// How an Estimator runs: its directories, how often it saves and logs, and the devices it trains
// on.
// Thread safety: a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/best_checkpoints.h"
#include "muster/train/non_finite_policy.h"

namespace muster::inline v0_1 {

// A value: an Estimator keeps a copy. Where tf.estimator uses replace(), copy it and change the
// copy:
//
//   RunConfig config = estimator.config();
//   config.save_checkpoints_secs = std::nullopt;
//   config.save_checkpoints_steps = 500;
//
// Setting one of two alternative fields does not unset the other: unset it yourself. The Estimator
// that gets the copy checks this.
struct MUSTER_EXPORT RunConfig {
  // The directory of checkpoints and events. Empty: model_dir of TF_CONFIG, else a new temporary
  // directory, with a warning.
  std::string model_dir{};
  // The seed of initial values, shuffles and dropout; unset: 0. The same seed gives the same bits.
  std::optional<uint64_t> random_seed{};

  // The number of batches in one step: each replica adds the gradients of this many batches, as if
  // they were one batch, before the reduction and the update. At least 1, and the same on all
  // workers. If the data ends within a step, the last step is smaller.
  int64_t accumulate_steps = 1;

  int64_t save_summary_steps = 100;  // steps between training summaries; 0: none, also in
                                     // evaluation
  // How often to save; at most one of the two. Both unset: every 600 s. 0: no checkpoints.
  std::optional<int64_t> save_checkpoints_steps{};
  std::optional<Seconds> save_checkpoints_secs{};
  int keep_checkpoint_max = 5;  // the newest ones; 0 keeps all
  // In addition, one checkpoint is kept permanently after each such time.
  Seconds keep_checkpoint_every_n_hours = std::chrono::hours(10000);
  // How many saves in a row may fail: the run continues and tries again at the next save; one more
  // failure ends it. The first and the last save of a run must succeed. Unset: 2 if model_dir is in
  // a bucket, 0 on a disk. 0 or more; the chief's value applies.
  std::optional<int64_t> max_failed_saves{};
  // Whether the chief copies its state at a save and continues, while a thread writes the
  // checkpoint. It then needs memory for its state twice, and Hook::after_save() is called some
  // steps later. The first and the last save of a run stop it in any case. The same on all workers.
  bool asynchronous_saves = true;
  // Also keep the best checkpoints, ranked by the evaluations of train_and_evaluate(). Unset: none.
  std::optional<KeepBest> keep_best{};
  // How often to log progress, train_metrics and rates: after the first step, and then after this
  // many steps (steps 1, 101, 201); more than 0.
  int64_t log_step_count_steps = 100;

  // What to do with a training step whose loss or gradients are not finite, and how often this may
  // happen in one run; the next such step ends it with NonFinite. kSkip and kRollBack check every
  // gradient once a step, and kRollBack needs checkpoints. 0 or more; the same on all workers.
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  int64_t non_finite_limit = 10;

  // Whether a run that continues reads its input from the beginning, and keeps weights, optimizers
  // and step. Use it for input that cannot be continued: other data, or data that each worker reads
  // for itself when the number of workers changed.
  bool restart_input = false;

  // The checkpoint or model_dir of another run whose weights this run begins with, or settings that
  // choose variables. It applies only if model_dir has no checkpoint: a run that continues is not
  // warm started again. Evaluation and prediction without a checkpoint use these weights too.
  std::optional<WarmStartFrom> warm_start_from{};

  distribute::StrategyPtr train_distribute{};  // one device when unset
  // Where to evaluate; the results are the same. Unset: one replica of the chief, on its first
  // device. mirrored(): threads of the chief. multi_worker_mirrored(): all workers; under
  // train_and_evaluate() the training workers, and train_distribute must then be
  // multi_worker_mirrored() as well, or unset.
  distribute::StrategyPtr eval_distribute{};
  Seconds join_timeout{600};  // how long to wait for all tasks to connect; more than 0
  // The least number of workers, the chief included. More than 0 makes a run of
  // multi_worker_mirrored() elastic: when workers are lost, train() continues with the others, and
  // workers that come join it. The same on all tasks; at most the number of workers. 0:
  // MUSTER_MIN_WORKERS decides, and without it a lost worker ends the run. docs/reliability.md,
  // "Elastic runs".
  int min_workers = 0;

  // Whether the program asks this run to stop; unset: never, except by request_stop(). When it
  // returns true, train() and train_and_evaluate() make the step that they are in, save if they
  // save checkpoints, and return, on all workers after the same step. It also ends waits for other
  // tasks, and for another program that uses model_dir: train() then returns without a step. It
  // ends evaluate() with Cancelled. Called in every step and every 50 ms of a wait, from several
  // threads; it must return quickly, and keep returning true. Ctrl-C and SIGTERM are apart: they
  // end a run with Cancelled, see the exit codes. It is not asked while a function of the program
  // runs, such as the model function or a data source that waits.
  std::function<bool()> cancelled{};

  // How long a task of type evaluator waits while no chief runs: for a chief to start or to return,
  // for a checkpoint, or for the end of the run. Then it ends with Timeout. More than 0.
  Seconds evaluator_timeout{3600};

  bool trace = false;  // print where a step's time goes when training ends
  // Write which examples each step used into the folder "audit" of model_dir, a small file for each
  // save. `muster audit MODEL_DIR` says which were used twice or never, over restarts and changes
  // of the number of workers. Not supported with parameter servers.
  bool audit = false;
  // A step that takes much longer than the steps before is reported in the log, with the stacks of
  // all threads: see "A step that hangs" in docs/reliability.md. Nothing is ended for it. This is
  // the time below which no step is reported; 0: none is. 0, or at least 1.
  Seconds watchdog{30};
  // Whether to show a progress bar where log::shows_status(); false: only log lines.
  bool progress_line = true;

  // The file system of the run's paths; nullptr: file_systems(), which chooses by scheme.
  FileSystem* fs = nullptr;
  // The clock for measuring time and for waits; nullptr: system_clock(). Tests use a ManualClock.
  Clock* clock = nullptr;
  // The environment that describes the cluster, the job and its settings; unset: that of the
  // process. cluster/cluster_resolvers.h makes one for clusters that a program looks up.
  std::optional<Environment> environment{};

  // Throws InvalidArgument with the field, its value and the allowed range.
  void validate() const;
};

}  // namespace muster::inline v0_1
