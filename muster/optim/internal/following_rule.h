// An update rule that runs after another one, on the weights that the first has just written, with
// one slot of its own. Thread safety: as UpdateRule.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/optim/internal/wrapped_rule.h"

namespace muster::inline v0_1::optim::internal {

class FollowingRule : public WrappedRule {
 public:
  // Throws InvalidArgument that names `function` when the inner rule has a slot of that name.
  FollowingRule(const char* function, std::shared_ptr<const UpdateRule> inner, SlotSpec slot);

  std::vector<SlotSpec> slots() const final;
  std::vector<SlotSpec> slots_of(const VariableSpec& variable) const final;
  // A long segment is updated piece by piece, if the inner rule allows that: the following rule
  // finds the weights in the cache, and memory is read once.
  void update(const Segment& segment, int64_t iterations) const final;

 protected:
  // Whether anything follows this update.
  virtual bool follows(int64_t iterations) const = 0;
  // `own` has the updated weights, this rule's slot alone, and a gradient that is used already.
  virtual void follow(const Segment& own, int64_t iterations) const = 0;

 private:
  void update_piece(const Segment& piece, int64_t iterations) const;

  const SlotSpec slot_;
};

}  // namespace muster::inline v0_1::optim::internal
