// What follows a step of an elastic run, by what each of its replicas wants. Pure functions.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace muster::inline v0_1::internal {

enum class NextStep {
  kStep,         // another one
  kStepWithout,  // another one, in which the others of an elastic run miss the tasks that leave
  kEnd,
  kLeave,   // this task leaves an elastic run, which continues without it
  kRegroup  // an elastic run continues with another group
};

// What a replica wants; the most important counts.
struct StepWish {
  bool signal = false;     // a signal asks its task to stop
  bool end = false;        // the run is to end
  bool newcomers = false;  // workers wait to join
  std::string text() const {
    return signal ? "signal" : end ? "end" : newcomers ? "newcomers" : "";
  }
};

// `wishes`: the texts of all replicas, of which each task has `locals`; the first is the chief's.
// `task`: this one. `can_spare` says whether the run can continue without so many tasks.
inline NextStep next_step(const std::vector<std::string>& wishes, int locals, int task,
                          const std::function<bool(int)>& can_spare) {
  const auto said = [&](const char* what) { return std::ranges::count(wishes, what) > 0; };
  if (said("end") || wishes.front() == "signal") return NextStep::kEnd;
  // A signal is for a task: all of its replicas know it.
  std::set<int> leaving;
  for (int process = 0; process < static_cast<int>(wishes.size()) / locals; ++process) {
    const auto first = wishes.begin() + process * locals;
    if (std::count(first, first + locals, "signal") == locals) leaving.insert(process);
  }
  if (leaving.empty()) return said("newcomers") ? NextStep::kRegroup : NextStep::kStep;
  if (!can_spare(static_cast<int>(leaving.size()))) return NextStep::kEnd;
  return leaving.contains(task) ? NextStep::kLeave : NextStep::kStepWithout;
}

}  // namespace muster::inline v0_1::internal
