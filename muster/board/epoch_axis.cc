#include "muster/board/epoch_axis.h"

#include <algorithm>
#include <mutex>
#include <string_view>

namespace muster::inline v0_1::board {

EpochAxis::EpochAxis(const RunData& run, std::optional<double> steps_per_epoch)
    : steps_per_epoch_(steps_per_epoch) {
  if (steps_per_epoch_) return;
  const auto found = run.tags().find(std::string_view(kEpochTag));
  if (found == run.tags().end() || found->second.kind != TagKind::kScalar) return;
  for (const ScalarBin& bin : found->second.scalars.bins()) {
    if (bin.odd > 0) continue;
    points_.emplace_back(static_cast<double>(bin.first_step), bin.low);
    if (bin.last_step > bin.first_step)
      points_.emplace_back(static_cast<double>(bin.last_step), bin.high);
  }
  std::ranges::stable_sort(points_, {}, [](const auto& point) { return point.first; });
}

double EpochAxis::at(double step) const {
  if (steps_per_epoch_) return step / *steps_per_epoch_;
  const auto after =
      std::ranges::upper_bound(points_, step, {}, [](const auto& point) { return point.first; });
  if (after == points_.begin()) return points_.front().second;
  if (after == points_.end()) return points_.back().second;
  const auto& [left, low] = *(after - 1);
  const auto& [right, high] = *after;
  return low + (high - low) * (step - left) / (right - left);
}

std::pair<std::optional<double>, std::optional<double>> EpochAxis::steps(
    std::optional<double> from, std::optional<double> to) const {
  if (steps_per_epoch_) {
    if (from) from = *from * *steps_per_epoch_;
    if (to) to = *to * *steps_per_epoch_;
    return {from, to};
  }
  // The points next to the range: between two points the epochs rise, or stay.
  if (from) {
    const auto inside =
        std::ranges::find_if(points_, [&](const auto& point) { return point.second >= *from; });
    from = inside == points_.begin() ? std::optional<double>() : (inside - 1)->first;
  }
  if (to) {
    const auto outside =
        std::ranges::find_if(points_, [&](const auto& point) { return point.second > *to; });
    to = outside == points_.end() ? std::optional<double>() : outside->first;
  }
  return {from, to};
}

EpochAxis epochs_of(const RunStore& store, std::string name,
                    std::optional<double> steps_per_epoch) {
  while (true) {
    for (const auto& each : store.runs()) {
      if (each->name != name) continue;
      const std::lock_guard lock(each->mutex);
      EpochAxis epochs(each->data, steps_per_epoch);
      if (epochs.is_known()) return epochs;
    }
    // An evaluation is in a folder below its run.
    if (name == ".") return {};
    const size_t slash = name.rfind('/');
    name = slash == std::string::npos ? "." : name.substr(0, slash);
  }
}

}  // namespace muster::inline v0_1::board
