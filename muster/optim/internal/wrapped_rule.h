// An update rule around another one, as which it appears. Thread safety: as UpdateRule.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/update_rule.h"

namespace muster::inline v0_1::optim::internal {

class WrappedRule : public UpdateRule {
 public:
  explicit WrappedRule(std::shared_ptr<const UpdateRule> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  std::vector<SlotSpec> slots() const override { return inner_->slots(); }
  bool slots_differ() const override { return inner_->slots_differ(); }
  std::vector<SlotSpec> slots_of(const VariableSpec& variable) const override {
    return inner_->slots_of(variable);
  }
  double learning_rate() const override { return inner_->learning_rate(); }
  LearningRate schedule() const override { return inner_->schedule(); }
  bool per_variable() const override { return inner_->per_variable(); }
  std::vector<NamePattern> name_patterns() const override { return inner_->name_patterns(); }
  WeightDecay weight_decay() const override { return inner_->weight_decay(); }

 protected:
  const UpdateRule& inner() const { return *inner_; }
  // Returns the patterns of the inner rule, and then `own`.
  std::vector<NamePattern> with_inner(const NamePatterns& own) const {
    std::vector<NamePattern> all = inner_->name_patterns();
    for (NamePattern& one : own.list()) all.push_back(std::move(one));
    return all;
  }

 private:
  const std::shared_ptr<const UpdateRule> inner_;
};

}  // namespace muster::inline v0_1::optim::internal
