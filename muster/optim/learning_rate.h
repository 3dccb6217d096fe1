// A LearningRate is a number, or a schedule: a function of the step. Thread safety: an immutable
// value.
//
// The step is the number of earlier updates of the optimizer ("<optimizer>/iterations" in a
// checkpoint): the global step, if it trains from the first step on. A run that resumes continues
// the schedule, all replicas have the same rate, and with accumulate_steps a step is an update, not
// a batch. schedules.h has Keras's schedules.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

// The value of an option that is not set. Required options with this value are refused.
inline constexpr double kNotGiven = std::numeric_limits<double>::quiet_NaN();

// A number, or a function of the step.
class MUSTER_EXPORT LearningRate {
 public:
  // A constant rate. The optimizer checks its range.
  template <typename Number>
  requires std::convertible_to<const Number&, double> LearningRate(const Number& rate)
      : constant_(rate) {}
  // Your own schedule. `description` is one line, equal for schedules that compute the same; `rate`
  // must depend only on the step, and may be called from several threads at once. Throws
  // InvalidArgument when either is empty.
  LearningRate(std::string description, std::function<double(int64_t step)> rate);

  // Returns the rate of the update after `step` updates. Throws InvalidArgument if a schedule
  // returns a rate that is not finite or is below 0.
  double at(int64_t step) const;
  bool is_constant() const { return schedule_ == nullptr; }
  // Returns "0.001", or "ExponentialDecay(initial_learning_rate=0.1, ...)".
  std::string describe() const;

 private:
  struct Schedule {
    std::string description{};
    std::function<double(int64_t)> rate{};
  };
  double constant_ = 0;
  std::shared_ptr<const Schedule> schedule_;
};

}  // namespace muster::inline v0_1::optim
