// The evaluations of one train_and_evaluate(): when each EvalSpec is due, who makes it, what came
// of it, and what its exporters wrote. Thread safety: the replicas of this process call it from
// their threads, together; only the chief's touches what is remembered.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/replica.h"
#include "muster/estimator/internal/estimator_impl.h"
#include "muster/estimator/train_and_evaluate.h"

namespace muster::inline v0_1::internal {

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

class Evaluations {
 public:
  using Evaluated = Estimator::Impl::Evaluated;
  // Who evaluates: this process by itself, or all replicas of the run, each of which makes the
  // call.
  struct Ways {
    std::function<Evaluated(const InputFn&, const EvaluateOptions&)> alone;
    std::function<Evaluated(const InputFn&, const EvaluateOptions&, distribute::Replica&)> together;
  };

  // All of them outlive it.
  Evaluations(Estimator& estimator, const std::vector<EvalSpec>& specs,
              std::optional<int64_t> max_steps, Ways ways);

  // A checkpoint was written; `prefix` is its prefix on the chief.
  void after_save(int64_t step, const std::string& prefix, distribute::Replica& replica);
  // `trained` says whether this run made steps.
  void at_end(int64_t step, bool trained, distribute::Replica& replica);

  // What there is when the run is over.
  TrainAndEvaluateResult result(const TrainResult& training) const;

 private:
  // One EvalSpec and the last evaluation of it.
  struct Course {
    explicit Course(const EvalSpec& of) : spec(&of), input(of.input_fn) {}
    const EvalSpec* spec;
    SharedInput input;
    std::optional<int64_t> step;
    std::optional<TimePoint> begun;
    Evaluated last;
    std::vector<bool> exported;  // by exporter: whether it has exported that checkpoint
    bool told_final = false;     // whether its exporters were told that it is the final one
  };

  bool due_after_save(const Course& course, int64_t step) const;
  bool due_at_end(const Course& course, int64_t step, bool trained) const;
  std::string next_checkpoint() const;
  // Evaluates where the strategy says; `due` is asked on the chief, which decides for all.
  void evaluate_those(const std::function<bool(const Course&)>& due, int64_t step,
                      const std::string& prefix, bool is_final, distribute::Replica& replica);
  void evaluate(Course& course, int64_t step, const std::string& prefix, bool together,
                distribute::Replica& replica);
  void call_exporters(Course& course, bool is_final);

  Estimator& estimator_;
  const std::optional<int64_t> max_steps_;
  const Ways ways_;
  Clock& clock_;
  std::vector<std::unique_ptr<Course>> courses_;
  std::map<std::string, std::vector<std::string>> exports_;
};

}  // namespace muster::inline v0_1::internal
