// Evaluates a model on the replicas of a strategy. Whole batches go to the replicas in turn, and
// results are merged in the order of the batches. So the numbers equal those of a single replica,
// bit for bit when each batch is computed with the same number of threads. Thread safety: each
// replica's calls belong to its thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/train/hook.h"
#include "muster/train/input_fn.h"
#include "muster/train/model_runner.h"
#include "muster/train/results.h"

namespace muster::inline v0_1 {

// The data to evaluate on, how long, and what may end it. The same on all replicas.
struct EvaluateLoop {
  InputFn input_fn{};              // describes all of the data, to every process
  std::optional<int64_t> steps{};  // batches over all replicas; all of the data when unset
  uint64_t seed = 0;               // of the data set's shuffles
  // Called on the chief before anything else: sets the values to evaluate in its runner, which the
  // other replicas then get from it. Unset: the runner's present values.
  std::function<void(ModelRunner& runner)> load{};
  std::function<void(int64_t batches)> after_batch{};  // one replica of each process, for progress
  std::function<bool()> interrupted{};                 // asked before every batch
  // Called on the chief at the end, with the values given to ModelContext::summary() over all
  // batches. Set on all replicas or on none; unset, nothing is gathered.
  std::function<void(std::vector<formats::SummaryValue> values)> summarize{};
  // Called on one replica of each process; the hooks of the model function follow them.
  std::vector<std::shared_ptr<Hook>> hooks{};
  // Arguments of the hooks.
  std::string model_dir{};
  std::string name{};
};

// This replica's part of an evaluation; all replicas of the run call it together, and get the same
// result. Batch i is evaluated by replica i mod n, whole and unchanged. The context of the input
// function has one pipeline and one replica, wherever it is called: batches are the same as in one
// process. Throws InvalidArgument when the input gives no data, the models differ, or a hook wants
// to end it on several replicas; Cancelled when interrupted, PeerLost when another replica failed.
EvalResult evaluate(ModelRunner& runner, distribute::Replica& replica, const EvaluateLoop& loop);

// The runners of the replicas of one process, kept from one evaluation to the next.
class ModelRunners {
 public:
  explicit ModelRunners(std::function<std::unique_ptr<ModelRunner>(Device device)> make)
      : make_(std::move(make)) {}
  // Returns the runner of a replica of this process. It is made at the first call, and made again
  // when the replica is on another device. May be called from any thread.
  ModelRunner& get(size_t local_replica, Device device);

 private:
  std::function<std::unique_ptr<ModelRunner>(Device device)> make_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ModelRunner>> runners_;
};

// Brings the replicas of `strategy` together for one evaluation; every process of a cluster calls
// it. Throws the errors of Strategy::start_replicas(), and the error of the first replica of this
// process that failed.
EvalResult evaluate(ModelRunners& runners, const distribute::Strategy& strategy,
                    const distribute::StartOptions& start, const EvaluateLoop& loop);

}  // namespace muster::inline v0_1
