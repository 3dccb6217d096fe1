// When a step takes so long that people want to know: a bound that is learned from the steps
// before. Pure: no clock, no threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace muster::inline v0_1::plan {

// The bound is the largest of:
//   - a floor in seconds;
//   - 10 times the median of the last 256 steps;
//   - exp(m + 8 d), where m and d are the median and the deviation of the logarithms of these
//     steps. The deviation is 1.4826 times the median distance from m, which is the standard
//     deviation of normal numbers. Times of steps vary by factors, so their logarithms are closer
//     to normal numbers than the times;
//   - 3 times the longest step so far, which is forgotten slowly: by half in 20,000 steps.
// There is none before 20 steps: the first ones compile, fill caches and grow memory.
class StepBound {
 public:
  static constexpr size_t kSteps = 256, kFirstSteps = 20;
  static constexpr double kOfMedian = 10, kDeviations = 8, kOfLongest = 3, kHalfLife = 20'000;

  // `floor`: seconds, more than 0.
  explicit StepBound(double floor);

  // A step has ended that took so many seconds. Amortized, it costs less than a microsecond.
  void note(double seconds);
  // Seconds after which a step that has not ended takes too long.
  std::optional<double> bound() const;

  // Of the last steps, in seconds; 0 before the first one.
  double median() const { return median_; }
  double longest() const;

 private:
  void learn();

  const double floor_;
  std::vector<float> logs_{};  // a ring
  uint64_t noted_ = 0;
  double longest_ = 0;
  double median_ = 0;
  double learned_ = 0;  // by median and deviation
};

}  // namespace muster::inline v0_1::plan
