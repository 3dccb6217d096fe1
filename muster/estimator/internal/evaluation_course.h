// One EvalSpec of a train_and_evaluate(), and the result of its last evaluation. The chief has
// them, and an evaluator. Thread safety: input_at() is called by the replicas of a process,
// together; all else belongs to one thread.
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
  // " (validation)" for use after a step; empty for an evaluation without a name.
  std::string in_brackets() const;
  InputFn input_at(int64_t step) { return input_.at(step); }
  // Options for `checkpoint_path`; empty: for the latest one.
  EvaluateOptions options(const std::string& checkpoint_path) const;

  // The step of the last evaluation, and when it was begun; nothing before the first one, and no
  // time for an evaluation that another process made.
  std::optional<int64_t> step() const { return step_; }
  std::optional<TimePoint> begun() const { return begun_; }
  const Evaluated& last() const { return last_; }
  bool told_final() const { return told_final_; }
  // Whether the last evaluation is one of that checkpoint.
  bool evaluated(const CheckpointFile& file) const {
    return step_ && file_.name == file.name && file_.version == file.version;
  }

  // Notes an evaluation, and updates the list of best checkpoints.
  void note(int64_t step, TimePoint begun, Evaluated evaluated);
  // Goes on from an evaluation that another process has made of the checkpoint with this prefix.
  void restore(const JournalEntry& entry, const std::string& prefix);
  // Calls the exporters that have not exported the last evaluation yet, unless they were called
  // with it as the final one. Throws their errors, with their name and the step.
  void call_exporters(bool is_final, Exports* exports);
  // The journal entry of the last evaluation.
  JournalEntry entry() const;

 private:
  Estimator& estimator_;
  const EvalSpec& spec_;
  SharedInput input_;
  std::optional<int64_t> step_;
  std::optional<TimePoint> begun_;
  Evaluated last_;
  CheckpointFile file_;                          // of the last evaluation
  std::map<std::string, std::string> exported_;  // the exports of it, by exporter
  bool told_final_ = false;  // whether exporters were called with it as the final one
};

}  // namespace muster::inline v0_1::internal
