// What an evaluator decides from what it sees: whether more checkpoints will come, and which one it
// evaluates next. Thread safety: pure functions of plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/estimator/run_end.h"

namespace muster::inline v0_1::internal {

// What can be seen of the training that an evaluator is next to.
struct TrainingSigns {
  std::optional<int64_t> newest_step{};  // of the checkpoints there are
  std::optional<int64_t> max_steps{};    // of the TrainSpec
  bool chief_works = false;              // its lease is alive
  bool chief_is_through = false;         // and says that it makes no more steps
  // A chief that was at work before has left, and said that training failed for good.
  bool chief_failed = false;
  std::optional<RunEnd> end{};  // of run_end.json
  // Whether that file was there when the evaluator started, and nothing has happened since: then it
  // may be left over from the previous run.
  bool end_was_there = false;
  std::string run{};  // this start of all tasks, where the environment names it
};

enum class TrainingState {
  kGoesOn,     // a chief is at work
  kUnknown,    // no training now; it may start, as after a restart
  kMaybeOver,  // the end of a run is there, and it may be that of the run before
  kOver,       // no more checkpoints will come
  kFailed,     // likewise, and the last one is not an end
};

// Training is over if a checkpoint has reached max_steps. A run_end.json that the evaluator found
// at its start may be left over from the previous run: it counts if it names the run of
// `signs.run`, and does not count if it names another one.
TrainingState judge_training(const TrainingSigns& signs);

// What a checkpoint is to an EvalSpec.
enum class CheckpointUse {
  kNew,
  kEvaluated,
  kUnreadable,  // damaged, or gone
};

// One EvalSpec, and the checkpoints there are, in the order in which they were saved.
struct SpecView {
  bool every_checkpoint = false;  // EvalSpec::every_checkpoint
  std::vector<CheckpointUse> uses{};
  TimePoint due{};  // from when on it may be evaluated, by start_delay_secs and throttle_secs
};

struct EvaluatorPlan {
  // The one to evaluate now, and on which specs; nothing when there is none, or none is due yet.
  std::optional<size_t> checkpoint{};
  std::vector<size_t> specs{};
  // When one that waits is due; nothing when none waits.
  std::optional<TimePoint> due{};
};

// `over`: no more checkpoints will come. What is left is then due at once: the last readable one
// for every spec, and those before it for specs that want every checkpoint.
EvaluatorPlan plan_evaluations(const std::vector<SpecView>& specs, TimePoint now, bool over);

// The last checkpoint that is not unreadable; nothing when there is none.
std::optional<size_t> last_readable(const std::vector<CheckpointUse>& uses);

}  // namespace muster::inline v0_1::internal
