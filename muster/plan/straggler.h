// Which task of a run makes the others wait, by where the time of their last steps went. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/plan/activity.h"

namespace muster::inline v0_1::plan {

// The last steps of one task.
struct TaskSteps {
  std::string task{};
  std::vector<StepSeconds> last{};
};

// The task that makes the others wait.
struct Straggler {
  size_t task = 0;                      // its place among the tasks
  Activity where = Activity::kCompute;  // in which it is slower: kInput, kCompute, kOther, ...
  double seconds = 0;                   // of `where`, a step; the mean of its last steps
  double others = 0;                    // the same, of the median of the others
  double slowdown = 1;                  // its own time of a step over the median of the others

  // "worker 1 takes 3.1 times as long as the others: input is 210.0 ms a step, and 4.0 ms in the
  // others".
  MUSTER_PART_EXPORT std::string text(const std::string& name) const;
};

// The slowest task, if its own time of a step is at least 1.25 times the median of the others, and
// the difference is at least a tenth of a step. A task's own time is input, compute and other; of
// tasks `at_own_pace`, whose steps wait for no other task, communication too. Tasks with fewer than
// 3 steps are left out, and of the others all steps that every task has: where they have none in
// common, their last steps. Nothing for fewer than two such tasks.
MUSTER_PART_EXPORT std::optional<Straggler> find_straggler(std::span<const TaskSteps> tasks,
                                                           bool at_own_pace = false);

}  // namespace muster::inline v0_1::plan
