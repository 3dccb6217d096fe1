#include "muster/optim/optimizer.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/optim/recording.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1::optim {

namespace {

// A slot is "<optimizer>/<slot>/<variable>".
void check_name(const std::string& name) {
  if (name.find('/') == std::string::npos) return;
  throw invalid_argument(fmt::format("an optimizer is named \"{}\"", name),
                         "names of optimizers contain no '/': it separates the names of a slot");
}

}  // namespace

Optimizer::Optimizer(std::shared_ptr<const UpdateRule> rule, std::string name)
    : rule_(std::move(rule)), name_(std::move(name)) {
  if (!rule_) throw invalid_argument("an Optimizer was made without an update rule");
  if (name_.empty()) name_ = rule_->name();
  check_name(name_);
}

Optimizer Optimizer::named(std::string name) const {
  Optimizer other = *this;
  check_name(name);
  if (name.empty()) {
    throw invalid_argument(fmt::format("{}: its new name is empty", name_),
                           "say how it is called: optimizer.named(\"slow\")");
  }
  other.name_ = std::move(name);
  return other;
}

Optimizer Optimizer::with(std::shared_ptr<const GradientTransformation> transformation) const {
  if (!transformation) {
    throw invalid_argument(fmt::format("{}: a gradient transformation is missing", name_));
  }
  Optimizer other = *this;
  other.transformations_.push_back(std::move(transformation));
  return other;
}

Optimizer Optimizer::around(
    const std::function<std::shared_ptr<const UpdateRule>(std::shared_ptr<const UpdateRule>)>& wrap)
    const {
  Optimizer other = *this;
  other.rule_ = wrap(rule_);
  if (!other.rule_) throw invalid_argument(fmt::format("{}: the rule around it is missing", name_));
  return other;
}

Optimizer Optimizer::scaled(const LossScalingOptions& options) const {
  if (loss_scaling_) {
    throw invalid_argument(
        fmt::format("loss_scaling: the loss of the optimizer {} is scaled already", name_));
  }
  Optimizer other = *this;
  other.loss_scaling_ = options;
  return other;
}

Optimizer Optimizer::reduced(const ReduceOnPlateauOptions& options) const {
  if (reduction_) {
    throw invalid_argument(fmt::format(
        "reduce_on_plateau: the learning rate of the optimizer {} is reduced already", name_));
  }
  Optimizer other = *this;
  other.reduction_ = options;
  return other;
}

Optimizer Optimizer::only(std::function<bool(const VariableSpec&)> filter, std::string description,
                          std::vector<NamePattern> patterns) const {
  if (!filter) throw invalid_argument(fmt::format("{}: a filter is missing", name_));
  Optimizer other = *this;
  other.only_.push_back({std::move(filter), std::move(description), std::move(patterns)});
  return other;
}

std::vector<NamePattern> Optimizer::name_patterns() const {
  std::vector<NamePattern> all = rule_->name_patterns();
  for (const Only& only : only_) all.insert(all.end(), only.patterns.begin(), only.patterns.end());
  return all;
}

void Optimizer::transform(StepGradients& step) const {
  for (const auto& transformation : transformations_) transformation->transform(step);
}

std::string Optimizer::describe() const {
  std::string text = fmt::format("{}: {}", name_, rule_->describe());
  for (const auto& transformation : transformations_) text += ", " + transformation->describe();
  for (const Only& only : only_) text += ", " + only.description;
  if (loss_scaling_) text += ", " + loss_scaling_->describe();
  if (reduction_) text += ", " + reduction_->describe();
  return text;
}

TrainOp Optimizer::minimize(const Tensor& loss,
                            std::function<bool(const VariableSpec&)> filter) const {
  if (!loss.defined() || loss.numel() != 1) {
    throw invalid_argument(
        fmt::format("{}: cannot minimize {}: a loss is one number", name_,
                    loss.defined() ? muster::describe(loss) : std::string("an undefined tensor")),
        "reduce the loss with .mean() or .sum()");
  }
  return entry(loss, std::move(filter), false);
}

TrainOp Optimizer::no_step(std::function<bool(const VariableSpec&)> filter) const {
  return entry(Tensor(), std::move(filter), true);
}

TrainOp Optimizer::entry(const Tensor& loss, std::function<bool(const VariableSpec&)> filter,
                         bool rests) const {
  auto asked = filter;
  for (const Only& only : only_) {
    filter = [accepts = only.filter, given = std::move(filter)](const VariableSpec& spec) {
      return accepts(spec) && (!given || given(spec));
    };
  }
  TrainOp train_op;
  train_op.entries.push_back({.loss = loss,
                              .optimizer = *this,
                              .filter = std::move(filter),
                              .asked = std::move(asked),
                              .rests = rests});
  Recording::add(train_op);
  return train_op;
}

}  // namespace muster::inline v0_1::optim
