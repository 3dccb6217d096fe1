// The common part of the ready-made update rules: a name and a learning rate that may be a
// schedule. Thread safety: as UpdateRule.
#pragma once

#include <string>
#include <utility>

#include "muster/optim/internal/options.h"
#include "muster/optim/internal/segment.h"
#include "muster/optim/update_rule.h"

namespace muster::inline v0_1::optim::internal {

class ScheduledRule : public UpdateRule {
 public:
  // `function` is its name in errors: "adam".
  ScheduledRule(const char* function, std::string name, LearningRate learning_rate)
      : name_(std::move(name)), learning_rate_(std::move(learning_rate)) {
    check_learning_rate(function, learning_rate_);
  }

  std::string name() const final { return name_; }
  double learning_rate() const final { return learning_rate_.at(0); }
  LearningRate schedule() const final { return learning_rate_; }

 protected:
  // The rate of an update of a segment.
  double rate(const Segment& segment, int64_t iterations) const {
    return learning_rate_.at(iterations) * segment.learning_rate_multiplier;
  }
  // The option's text if it is set; empty for the default, which changes nothing.
  static std::string told_if(bool set, const std::string& text) { return set ? text : ""; }

 private:
  const std::string name_;
  const LearningRate learning_rate_;
};

}  // namespace muster::inline v0_1::optim::internal
