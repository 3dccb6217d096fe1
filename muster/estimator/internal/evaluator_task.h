// A task of type evaluator: it evaluates the checkpoints that the chief saves, as they come, until
// training is over. Chief and evaluator know of each other by files of model_dir alone: leases,
// checkpoints, evaluations.jsonl and run_end.json. Thread safety: one thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/checkpoint/lease.h"
#include "muster/estimator/internal/evaluation_course.h"
#include "muster/estimator/internal/evaluator_plan.h"
#include "muster/estimator/internal/training_watch.h"

namespace muster::inline v0_1::internal {

// What a simulation has in place of a model and of the lease's own thread.
struct EvaluatorSeams {
  // Evaluates the checkpoint that the options name; unset: the Estimator does.
  std::function<EvaluationCourse::Evaluated(const EvaluateOptions&)> evaluate{};
  // Between two beats of the lease; unset: as LeaseOptions has it.
  std::optional<std::chrono::milliseconds> beat{};
};

class EvaluatorTask {
 public:
  // Both outlive it. Throws InvalidArgument where no model_dir is named.
  EvaluatorTask(Estimator& estimator, const std::vector<EvalSpec>& specs,
                std::optional<int64_t> max_steps, EvaluatorSeams seams = {});
  ~EvaluatorTask();
  EvaluatorTask(const EvaluatorTask&) = delete;
  EvaluatorTask& operator=(const EvaluatorTask&) = delete;

  // Returns when training is over and its last checkpoint was evaluated. Throws what
  // train_and_evaluate() says of an evaluator.
  TrainAndEvaluateResult run();
  // Makes a beat of the lease, if it is held. Throws what the file system says.
  void renew_lease();

 private:
  TrainAndEvaluateResult work();
  // An EvalSpec's name, and a checkpoint by its name and version alone.
  using Key = std::pair<std::string, CheckpointFile>;

  // Waits until no other evaluator is at work, and holds the lease then.
  void take_lease();
  // Looks once, and does what is due. Whether all is done.
  bool look();
  void read_journal();
  static Key key_of(const EvaluationCourse& course, const CheckpointFile& file);
  std::vector<SpecView> views() const;

  void evaluate(const CheckpointFile& file, const std::vector<size_t>& specs, bool is_final);
  // Whether the checkpoint could be read.
  bool evaluate_one(EvaluationCourse& course, const CheckpointFile& file, bool is_final);
  void skip(const CheckpointFile& file, const Error& error);
  // Training is over and all is evaluated: exporters that were not told so hear it now.
  void finish();
  void keep(const std::vector<SpecView>& views, const std::vector<std::string>& evaluated);
  std::vector<formats::SummaryValue> lag_of(const std::string& prefix);

  void wait(const std::optional<TimePoint>& due);
  // Throws Cancelled, as check_stop() does.
  void sleep_until(TimePoint end);
  void say_what_is_awaited();
  void check_stop() const;
  [[noreturn]] void give_up() const;
  // "a checkpoint after step 120".
  std::string awaited() const;
  std::string path_of(const CheckpointFile& file) const;

  const EvaluatorSeams seams_;
  Estimator& estimator_;
  EstimatorAccess::Impl& impl_;
  FileSystem& fs_;
  Clock& clock_;
  const std::string model_dir_;
  const std::string name_;  // "evaluator:0"
  std::vector<std::unique_ptr<EvaluationCourse>> courses_;
  TrainingWatch training_;
  EvaluationJournal journal_;
  std::optional<Lease> lease_;
  LeaseContent said_;     // by the lease, except for its note
  std::string answered_;  // the note of the chief that was answered last
  Exports exports_;

  const TimePoint begun_;
  std::map<Key, JournalEntry> evaluated_;
  // Evaluations of an earlier run, or of one that cannot be distinguished from it.
  std::set<Key> evaluated_before_;
  bool journal_read_ = false;
  std::map<CheckpointFile, Error> unreadable_;  // damaged, or gone
  int64_t made_ = 0;                            // evaluations, by this task
  std::optional<TimePoint> waits_since_;
  double pause_;    // seconds until the next look
  TimePoint told_;  // when the log said last what is awaited
  bool told_once_ = false;
  std::set<std::string> elsewhere_;  // specs whose last evaluation another process has made
  bool behind_ = false;
  // Of the last evaluation, for people who look at the run.
  std::atomic<int64_t> lag_steps_ = 0;
  std::atomic<double> lag_seconds_ = 0;
};

}  // namespace muster::inline v0_1::internal
