// The chief's side of an evaluator that is next to its run: whether there is one, what it found,
// and that it takes over the last checkpoint. All goes through files of model_dir, so the evaluator
// may come, go, and be started again at any time. Thread safety: the chief's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/checkpoint/lease.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/estimator/internal/evaluation_journal.h"
#include "muster/train/results.h"

namespace muster::inline v0_1::internal {

class EvaluatorLink {
 public:
  struct Options {
    std::string model_dir{};
    cluster::Task task{};  // of the chief
    std::string run{};     // MUSTER_RUN_ID
    FileSystem* fs{};
    Clock* clock{};
    std::function<bool()> cancelled{};  // asked while it waits
    // Between two beats of the chief's lease; unset: as LeaseOptions has it.
    std::optional<std::chrono::milliseconds> beat{};
  };
  // Looks at once: what is noted by now was found before this run. What `options` points to
  // outlives it.
  explicit EvaluatorLink(Options options);

  // Whether an evaluator is at work now. Once one is, or is to be expected, the chief says by a
  // lease that it works, too. The log says when that changes.
  bool evaluator_works();
  // TrainAndEvaluateSchedule that an evaluator has made since the last call. Files are looked at
  // twice a second at most, so it may be called after each step; after a look that failed, half a
  // minute later.
  std::vector<Evaluation> take_evaluations();
  // Training is through at this step. Whether an evaluator has said that it heard so, and evaluates
  // the last checkpoint; false when none is at work or none says so in a minute. Throws Cancelled.
  bool hand_over(int64_t step);
  // Behind hand_over(): waits until the evaluator has evaluated that step for the EvalSpecs of
  // these names, has told all exporters, and has left. Whether it did so; false when it died or
  // left before, which the log says. It waits as long as the evaluator lives, says so every ten
  // seconds, and calls `meanwhile` in between, which may throw: with true when the evaluator has
  // got on since the last call. Throws Cancelled, and Timeout when
  // the evaluator has finished nothing for six hours.
  bool await_last(const std::vector<std::string>& names, int64_t step,
                  const std::function<void(bool news)>& meanwhile);
  // Training failed: an evaluator learns that no restart will come, unless `error` asks for one.
  void failed(const Error& error) noexcept;
  // Whether another evaluator evaluated that step for the EvalSpec as the final one, in this run.
  bool finished(const std::string& name, int64_t step);
  // Makes a beat of the chief's lease, if it is held. Throws what the file system says.
  void renew_lease();
  // Notes an evaluation of this task's own for an evaluator that comes later.
  void note(JournalEntry entry);

 private:
  void look();
  // Whether the note could be written.
  bool say(const std::string& note) noexcept;
  void take_lease();
  void say_that_it_left() const;
  void read_journal();
  // Whether all of `names` are finished(); `ever` counts what runs before have finished of this
  // very checkpoint.
  bool all_finished(const std::vector<std::string>& names, int64_t step, bool ever);
  // Calls `call`. Whether it was done; what may be done later, as a store that does not answer
  // tells, is said together with `trouble`, and does not end the run.
  bool attempt(const std::string& trouble, const std::function<void()>& call);

  const Options options_;
  LeaseWatch evaluator_;
  EvaluationJournal journal_;
  std::optional<Lease> lease_;
  TimePoint next_look_{};
  bool works_ = false;
  bool through_ = false;  // training makes no more steps
  bool begun_ = false;    // the journal was read once
  std::vector<Evaluation> found_;
  std::set<std::pair<std::string, std::string>> heard_;  // by name, and checkpoint with version
  std::set<std::pair<std::string, int64_t>> finished_;
  std::set<std::pair<std::string, std::string>> ever_finished_;  // as heard_, of all runs
};

}  // namespace muster::inline v0_1::internal
