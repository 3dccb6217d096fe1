// One EvalSpec of a train_and_evaluate(), and what came of its last evaluation. The chief has them,
// and an evaluator. Thread safety: input_at() is called by the replicas of a process, together;
// all else belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/estimator/internal/estimator_impl.h"
#include "muster/estimator/internal/evaluation_journal.h"
#include "muster/estimator/train_and_evaluate.h"

namespace muster::inline v0_1::internal {

// Folders that exporters wrote, in order, by the name of the exporter.
using Exports = std::map<std::string, std::vector<std::string>>;

// An input function that the replicas of this process call once for each evaluation, together.
class SharedInput {
 public:
  explicit SharedInput(InputFn input_fn) : input_fn_(std::move(input_fn)) {}
  // The input of the evaluation of `step`. All replicas end one evaluation before any begins the
  // next.
  InputFn at(int64_t step);

 private:
  const InputFn input_fn_;
  std::mutex mutex_;
  int64_t step_ = 0;
  InputFn shared_;
};

class EvaluationCourse {
 public:
  using Evaluated = EstimatorAccess::Impl::Evaluated;

  // Both outlive it.
  EvaluationCourse(Estimator& estimator, const EvalSpec& spec)
      : estimator_(estimator), spec_(spec), input_(spec.input_fn) {}

  const EvalSpec& spec() const { return spec_; }
  // " (validation)" after a step; nothing for an evaluation without a name.
  std::string in_brackets() const;
  InputFn input_at(int64_t step) { return input_.at(step); }
  // Of `checkpoint_path`; empty: of the latest one.
  EvaluateOptions options(const std::string& checkpoint_path) const;

  // The step of the last evaluation, and when it was begun; nothing before the first one, and no
  // time for one that another process made.
  std::optional<int64_t> step() const { return step_; }
  std::optional<TimePoint> begun() const { return begun_; }
  const Evaluated& last() const { return last_; }
  bool told_final() const { return told_final_; }
  // Whether the last evaluation is one of that checkpoint.
  bool evaluated(const CheckpointFile& file) const {
    return step_ && file_.name == file.name && file_.version == file.version;
  }

  // An evaluation was made. The best checkpoints are told.
  void note(int64_t step, TimePoint begun, Evaluated evaluated);
  // Goes on from an evaluation that another process has made of the checkpoint with this prefix.
  void restore(const JournalEntry& entry, const std::string& prefix);
  // Calls those exporters that have not exported the last evaluation yet, unless they were told
  // that it is the final one. Throws what they throw, with their name and the step.
  void call_exporters(bool is_final, Exports* exports);
  // What the journal says of the last evaluation.
  JournalEntry entry() const;

 private:
  Estimator& estimator_;
  const EvalSpec& spec_;
  SharedInput input_;
  std::optional<int64_t> step_;
  std::optional<TimePoint> begun_;
  Evaluated last_;
  CheckpointFile file_;                          // of the last evaluation
  std::map<std::string, std::string> exported_;  // what was written of it, by exporter
  bool told_final_ = false;  // whether exporters were told that it is the final one
};

}  // namespace muster::inline v0_1::internal
