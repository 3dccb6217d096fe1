#include "muster/plan/straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace muster::inline v0_1::plan {
namespace {

constexpr size_t kFewestSteps = 3;
constexpr double kSlowdown = 1.25, kShareOfStep = 0.1;

using Means = std::array<double, kActivities>;

// Seconds a step, over the steps in [first, last].
Means means_of(const std::vector<StepSeconds>& steps, int64_t first, int64_t last) {
  Means means{};
  double count = 0;
  for (const StepSeconds& step : steps) {
    if (step.step < first || step.step > last) continue;
    ++count;
    for (size_t a = 0; a < kActivities; ++a) means[a] += step.seconds[a];
  }
  for (double& mean : means) mean /= std::max(count, 1.0);
  return means;
}

double median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::ranges::sort(values);
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// The median over all except `skipped`.
template <typename Value>
double median_of_others(const std::vector<Means>& all, size_t skipped, const Value& value) {
  std::vector<double> values;
  for (size_t t = 0; t < all.size(); ++t) {
    if (t != skipped) values.push_back(value(all[t]));
  }
  return median(std::move(values));
}

}  // namespace

std::string Straggler::text(const std::string& name) const {
  return fmt::format(
      "{} takes {:.1f} times as long as the others: {} is {:.1f} ms a step, and {:.1f} ms in the "
      "others",
      name, slowdown, to_string(where), seconds * 1e3, others * 1e3);
}

std::optional<Straggler> find_straggler(std::span<const TaskSteps> tasks, bool at_own_pace) {
  std::vector<size_t> known;
  int64_t first = std::numeric_limits<int64_t>::min(), last = std::numeric_limits<int64_t>::max();
  for (size_t t = 0; t < tasks.size(); ++t) {
    const auto& steps = tasks[t].last;
    if (steps.size() < kFewestSteps) continue;
    known.push_back(t);
    first = std::max(first, steps.front().step);
    last = std::min(last, steps.back().step);
  }
  if (known.size() < 2) return std::nullopt;
  if (at_own_pace || first > last) {
    first = std::numeric_limits<int64_t>::min();
    last = std::numeric_limits<int64_t>::max();
  }
  std::vector<Means> means;
  for (const size_t t : known) means.push_back(means_of(tasks[t].last, first, last));
  std::vector<Activity> own{Activity::kInput, Activity::kCompute, Activity::kProgram,
                            Activity::kOther};
  if (at_own_pace) own.push_back(Activity::kCommunication);
  const auto own_time = [&](const Means& of) {
    double sum = 0;
    for (const Activity a : own) sum += of[static_cast<size_t>(a)];
    return sum;
  };
  const auto slowest = std::ranges::max_element(means, {}, own_time);
  const auto place = static_cast<size_t>(slowest - means.begin());
  const double mine = own_time(*slowest), others = median_of_others(means, place, own_time);
  double step = mine;
  if (!at_own_pace) step += (*slowest)[static_cast<size_t>(Activity::kCommunication)];
  if (mine < kSlowdown * others || mine - others < kShareOfStep * step) return std::nullopt;
  Straggler found{.task = known[place], .slowdown = mine / std::max(others, 1e-6)};
  double most = -1;
  for (const Activity a : own) {
    const auto seconds = [a](const Means& of) { return of[static_cast<size_t>(a)]; };
    const double usual = median_of_others(means, place, seconds);
    if (seconds(*slowest) - usual <= most) continue;
    most = seconds(*slowest) - usual;
    found.where = a;
    found.seconds = seconds(*slowest);
    found.others = usual;
  }
  return found;
}

}  // namespace muster::inline v0_1::plan
