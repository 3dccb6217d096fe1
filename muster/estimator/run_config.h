// How an Estimator runs: where its files are, how often it saves and speaks, on what it trains.
// Thread safety: a value.
#pragma once

#include <chrono>
#include <cstdint>
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

// A value: an Estimator keeps a copy. What tf.estimator's replace() does, a copy does here:
//
//   RunConfig config = estimator.config();
//   config.save_checkpoints_secs = std::nullopt;
//   config.save_checkpoints_steps = 500;
//
// Nothing is changed behind one's back: of the two, the one that was set must be unset. The
// Estimator that the copy is given to checks it.
struct MUSTER_EXPORT RunConfig {
  // Checkpoints and events. Empty: that of TF_CONFIG, else a fresh temporary one, with a warning.
  std::string model_dir{};
  // Decides initial values, shuffles and dropout; unset is 0. The same seed gives the same bits.
  std::optional<uint64_t> random_seed{};

  // Batches that make one step: each replica adds the gradients of so many, as if they were one
  // batch, and only then they are reduced and the update is made. At least 1, and the same on all
  // workers. Where the data ends in between, the last step is smaller.
  int64_t accumulate_steps = 1;

  int64_t save_summary_steps = 100;  // of training; 0: none, and none of the model in evaluation
  // How often to save; at most one of the two. Both unset: every 600 s. 0: no checkpoints.
  std::optional<int64_t> save_checkpoints_steps{};
  std::optional<Seconds> save_checkpoints_secs{};
  int keep_checkpoint_max = 5;  // newest ones; 0 keeps all
  // And one for good every so often.
  Seconds keep_checkpoint_every_n_hours = std::chrono::hours(10000);
  // So many saves in a row may fail, and the run goes on and tries again with the next; one more
  // ends it. The first save of a run and the last must not fail. Unset: 2 where model_dir is in a
  // bucket, 0 on a disk. 0 or more; the chief's counts.
  std::optional<int64_t> max_failed_saves{};
  // And the best ones, by the evaluations of train_and_evaluate(); unset keeps none for that.
  std::optional<KeepBest> keep_best{};
  // Progress lines, train_metrics and rates: of the first step, and then every so many (steps 1,
  // 101, 201); more than 0.
  int64_t log_step_count_steps = 100;

  // What becomes of a training step whose loss or gradients are not finite, and how often at most
  // in one run: the next one ends it with NonFinite. kSkip and kRollBack look at every gradient
  // once a step, and kRollBack needs checkpoints. 0 or more; the same on all workers.
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  int64_t non_finite_limit = 10;

  // A run that continues reads its input from the beginning again, and keeps weights, optimizers
  // and step. For input that cannot be continued: other data, or data that each worker reads for
  // itself on another number of workers.
  bool restart_input = false;

  // The checkpoint or model_dir of another run whose weights this one begins with, or which of them
  // in detail. It counts only where model_dir holds no checkpoint: what continues is not warm
  // started again. Evaluation and prediction without a checkpoint use these weights too.
  std::optional<WarmStartFrom> warm_start_from{};

  distribute::StrategyPtr train_distribute{};  // one device when unset
  // Where to evaluate; the results are the same. Unset: one replica of the chief, on its first
  // device. mirrored(): threads of the chief. multi_worker_mirrored(): all workers, under
  // train_and_evaluate those that train; train_distribute must then be multi_worker_mirrored() as
  // well, or unset.
  distribute::StrategyPtr eval_distribute{};
  Seconds join_timeout{600};  // how long to wait for all tasks to appear; more than 0

  // How long a task of type evaluator waits where no chief is at work: for one to begin or to come
  // back, for a checkpoint, or for the end of the run. Then it ends with Timeout. More than 0.
  Seconds evaluator_timeout{3600};

  bool trace = false;  // print where a step's time goes when training ends
  // A progress bar on a line that is rewritten, where log::shows_status(); false: plain lines only.
  bool progress_line = true;

  // Where the paths of the run lie; nullptr: file_systems(), which goes by their schemes.
  FileSystem* fs = nullptr;
  // By which it measures time and waits; nullptr: system_clock(). A ManualClock in a program's
  // tests.
  Clock* clock = nullptr;
  // Where the run finds its cluster, its job and its settings; unset: the environment of the
  // process. cluster/cluster_resolvers.h makes those of clusters that a program asks for.
  std::optional<Environment> environment{};

  // Throws InvalidArgument naming the field, its value and what is allowed.
  void validate() const;
};

}  // namespace muster::inline v0_1
