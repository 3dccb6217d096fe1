// The evaluations of one train_and_evaluate() in the tasks that train: when each EvalSpec is due,
// who makes it, what came of it, and what its exporters wrote. While an evaluator is next to the
// run, they are its business. Thread safety: the replicas of this process call it from their
// threads, together; only the chief's touches what is remembered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/distribute/replica.h"
#include "muster/estimator/internal/evaluation_course.h"
#include "muster/estimator/internal/evaluator_link.h"
#include "muster/train/save_together.h"

namespace muster::inline v0_1::internal {

class TrainAndEvaluateSchedule {
 public:
  using Evaluated = EvaluationCourse::Evaluated;
  // Which tasks evaluate: only this process, or all replicas of the run, each of which makes the
  // call.
  struct Ways {
    std::function<Evaluated(const InputFn&, const EvaluateOptions&)> alone{};
    std::function<Evaluated(const InputFn&, const EvaluateOptions&, distribute::Replica&)>
        together{};
  };

  // All of them outlive it; `link` is the chief's, and nullptr in tasks that are none.
  TrainAndEvaluateSchedule(Estimator& estimator, const std::vector<EvalSpec>& specs,
                           std::optional<int64_t> max_steps, Ways ways, EvaluatorLink* link);

  // A checkpoint was written, or a thread writes it. If it is evaluated, the evaluation waits for
  // the thread.
  void after_save(int64_t step, const Saved& saved, distribute::Replica& replica);
  // `trained` says whether this run made steps.
  void at_end(int64_t step, bool trained, distribute::Replica& replica);

  // What there is when the run is over.
  TrainAndEvaluateResult result(const TrainResult& training) const;

 private:
  // What the chief decides about one checkpoint.
  struct Checkpoint {
    int64_t step = 0;
    std::string prefix{};  // empty: that of the latest one
    // Set if a thread still writes it; called before it is evaluated. Returns its prefix; "" if
    // the save failed.
    std::function<std::string()> await{};
    bool is_final = false;  // as far as is known
    bool left_to_evaluator = false;
  };

  bool due_after_save(const EvaluationCourse& course, int64_t step);
  bool due_at_end(const EvaluationCourse& course, int64_t step, bool trained);
  // Whether an evaluator has evaluated the last checkpoint, for which the chief waits here.
  bool evaluator_has_last(int64_t step, distribute::Replica& replica);
  std::string next_checkpoint() const;
  // Evaluates where the strategy says; `due` is asked on the chief, which decides for all.
  void evaluate_those(const std::function<bool(const EvaluationCourse&)>& due,
                      Checkpoint checkpoint, distribute::Replica& replica);
  void evaluate(EvaluationCourse& course, const Checkpoint& checkpoint, bool together,
                distribute::Replica& replica);
  // Exporters and the journal, of what is evaluated.
  void tell(EvaluationCourse& course, bool is_final, bool evaluated_now);

  Estimator& estimator_;
  const std::optional<int64_t> max_steps_;
  const Ways ways_;
  Clock& clock_;
  EvaluatorLink* const link_;
  std::vector<std::unique_ptr<EvaluationCourse>> courses_;
  std::set<std::string> elsewhere_;  // specs whose last evaluation is an evaluator's
  std::set<std::string> put_off_;    // specs of which the log says that they wait for their time
  Exports exports_;
};

}  // namespace muster::inline v0_1::internal
