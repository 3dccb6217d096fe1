#include "muster/plan/step_bound.h"

#include <algorithm>
#include <cmath>

namespace muster::inline v0_1::plan {
namespace {

constexpr double kShortestStep = 1e-6;  // seconds
constexpr uint64_t kLearnEvery = 64;
// The standard deviation of normal numbers over their median distance from the median.
constexpr double kNormal = 1.4826;

double median_of(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

StepBound::StepBound(double floor) : floor_(floor) { logs_.reserve(kSteps); }

void StepBound::note(double seconds) {
  const auto log = static_cast<float>(std::log(std::max(seconds, kShortestStep)));
  if (logs_.size() < kSteps) {
    logs_.push_back(log);
  } else {
    logs_[noted_ % kSteps] = log;
  }
  ++noted_;
  static const double kKept = std::exp2(-1 / kHalfLife);
  longest_ = std::max(seconds, longest_ * kKept);
  if (noted_ % kLearnEvery == 0 || noted_ <= kFirstSteps) learn();
}

void StepBound::learn() {
  std::vector<float> logs = logs_;
  const double middle = median_of(logs);
  for (float& log : logs) log = std::abs(log - static_cast<float>(middle));
  const double deviation = kNormal * median_of(logs);
  median_ = std::exp(middle);
  learned_ = std::max(kOfMedian * median_, std::exp(middle + kDeviations * deviation));
}

std::optional<double> StepBound::bound() const {
  if (noted_ < kFirstSteps) return std::nullopt;
  return std::max({floor_, learned_, kOfLongest * longest_});
}

double StepBound::longest() const {
  return logs_.empty() ? 0 : std::exp(*std::ranges::max_element(logs_));
}

}  // namespace muster::inline v0_1::plan
