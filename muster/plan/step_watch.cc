#include "muster/plan/step_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace muster::inline v0_1::plan {
namespace {

constexpr Activity kOfAStep[] = {Activity::kInput, Activity::kCompute, Activity::kCommunication,
                                 Activity::kOther};

bool is_of_a_step(Activity activity) {
  return std::ranges::find(kOfAStep, activity) != std::end(kOfAStep);
}

double seconds_of_step(const StepSeconds& step) {
  double seconds = 0;
  for (const Activity activity : kOfAStep) seconds += step.of(activity);
  return seconds;
}

}  // namespace

std::string LongStep::text() const {
  if (ended) return fmt::format("step {} of {} has ended after {:.0f} s", step, task, seconds);
  return fmt::format(
      "step {} of {} takes {:.0f} s so far; the median of its last steps is {:.3g} s, the longest "
      "{:.3g} s",
      step, task, seconds, median, longest);
}

std::vector<LongStep> StepWatch::look(const std::vector<ActivityNow>& now, double elapsed) {
  std::erase_if(watched_, [&](const auto& known) {
    return std::ranges::none_of(now,
                                [&](const ActivityNow& one) { return one.task == known.first; });
  });
  std::vector<LongStep> found;
  for (const ActivityNow& one : now) {
    const auto watched = watched_.try_emplace(one.task, Watched{.bound = StepBound(floor_)}).first;
    look_at(watched->second, one, std::clamp(elapsed, 0.0, kLongestLook), found);
  }
  return found;
}

void StepWatch::look_at(Watched& watched, const ActivityNow& now, double elapsed,
                        std::vector<LongStep>& found) {
  const auto is_long = [&](int64_t step, bool ended) {
    return LongStep{.task = now.task,
                    .step = step,
                    .seconds = watched.age,
                    .bound = watched.bound.bound().value_or(0),
                    .median = watched.bound.median(),
                    .longest = watched.bound.longest(),
                    .ended = ended};
  };
  const bool same = now.step == watched.step;
  if (!same && watched.next > 0) found.push_back(is_long(watched.step + 1, /*ended=*/true));
  for (const StepSeconds& step : now.last) {
    // A run that went back to a checkpoint has smaller numbers again.
    if (step.step > watched.noted || now.step < watched.step)
      watched.bound.note(seconds_of_step(step));
  }
  if (!now.last.empty()) watched.noted = now.last.back().step;
  if (!same || now.activity == Activity::kStarting || now.activity == Activity::kDone) {
    watched.step = now.step;
    watched.age = watched.next = 0;
    return;
  }
  if (!is_of_a_step(now.activity)) return;
  watched.age += elapsed;
  const std::optional<double> bound = watched.bound.bound();
  if (!bound || watched.age <= std::max(*bound, watched.next)) return;
  watched.next = 2 * watched.age;
  found.push_back(is_long(now.step + 1, /*ended=*/false));
}

}  // namespace muster::inline v0_1::plan
