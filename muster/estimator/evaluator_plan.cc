#include "muster/estimator/internal/evaluator_plan.h"

#include <algorithm>

namespace muster::inline v0_1::internal {
namespace {

// The next checkpoint that a spec wants.
std::optional<size_t> wanted(const SpecView& spec) {
  if (spec.every_checkpoint) {
    const auto first = std::ranges::find(spec.uses, CheckpointUse::kNew);
    if (first == spec.uses.end()) return std::nullopt;
    return static_cast<size_t>(first - spec.uses.begin());
  }
  const std::optional<size_t> last = last_readable(spec.uses);
  if (!last || spec.uses[*last] != CheckpointUse::kNew) return std::nullopt;
  return last;
}

}  // namespace

TrainingState judge_training(const TrainingSigns& signs) {
  if (signs.max_steps && signs.newest_step && *signs.newest_step >= *signs.max_steps)
    return TrainingState::kOver;
  if (signs.chief_works)
    return signs.chief_is_through ? TrainingState::kOver : TrainingState::kGoesOn;
  if (signs.chief_failed) return TrainingState::kFailed;
  if (!signs.end) return TrainingState::kUnknown;
  if (!signs.end_was_there) return TrainingState::kOver;
  if (signs.run.empty() || signs.end->run.empty()) return TrainingState::kMaybeOver;
  return signs.run == signs.end->run ? TrainingState::kOver : TrainingState::kUnknown;
}

std::optional<size_t> last_readable(const std::vector<CheckpointUse>& uses) {
  for (size_t i = uses.size(); i > 0; --i) {
    if (uses[i - 1] != CheckpointUse::kUnreadable) return i - 1;
  }
  return std::nullopt;
}

EvaluatorPlan plan_evaluations(const std::vector<SpecView>& specs, TimePoint now, bool over) {
  EvaluatorPlan plan;
  for (size_t s = 0; s < specs.size(); ++s) {
    const std::optional<size_t> next = wanted(specs[s]);
    if (!next) continue;
    if (!over && specs[s].due > now) {
      plan.due = plan.due ? std::min(*plan.due, specs[s].due) : specs[s].due;
      continue;
    }
    // The earliest is first, and all specs that want it share it.
    if (!plan.checkpoint || *next < *plan.checkpoint) {
      plan.checkpoint = next;
      plan.specs.clear();
    }
    if (next == plan.checkpoint) plan.specs.push_back(s);
  }
  return plan;
}

}  // namespace muster::inline v0_1::internal
