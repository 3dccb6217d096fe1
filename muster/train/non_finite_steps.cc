#include "muster/train/internal/non_finite_steps.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

NonFiniteSteps::NonFiniteSteps(const TrainerOptions& options, Engine& engine)
    : options_(options), engine_(engine) {
  if (options.non_finite != NonFinitePolicy::kStop) engine.report_non_finite();
}

void NonFiniteSteps::begin_step() {
  if (options_.non_finite != NonFinitePolicy::kSkip) return;
  before_.clear();
  for (const Variable* variable : engine_.replica().variables().on_read())
    before_.push_back(variable->value().detach().clone());
}

void NonFiniteSteps::note(const distribute::StepResult& made,
                          const std::function<std::string()>& roll_back) {
  const int64_t step = engine_.step() + 1;
  std::string what = fmt::format("step {} is not finite: ", step);
  if (!engine_.non_finite_cause().empty()) {
    what += engine_.non_finite_cause();
  } else if (std::isfinite(made.loss)) {
    what += fmt::format("the loss is {}, but a gradient is infinite or NaN", made.loss);
  } else {
    what += "the loss over all replicas is infinite or NaN";
  }
  if (skipped_ + roll_backs_ >= options_.non_finite_limit) {
    throw Error(ErrorKind::kNonFinite,
                fmt::format("{}; it is number {} of this run, and RunConfig.non_finite_limit is {}",
                            what, skipped_ + roll_backs_ + 1, options_.non_finite_limit),
                "look at the data of this step, lower the learning rate or clip gradients; the "
                "last checkpoint is from before this step");
  }
  const bool tells = engine_.replica().is_chief() || !engine_.non_finite_cause().empty();
  if (options_.non_finite == NonFinitePolicy::kSkip) {
    engine_.replica().variables().put_back_on_read(before_);
    ++skipped_;
    if (tells)
      log::warning(fmt::format("{}; the step is skipped, {} of at most {}", what, skipped_,
                               options_.non_finite_limit));
    return;
  }
  const std::string prefix = roll_back();
  ++roll_backs_;
  if (tells)
    log::warning(fmt::format("{}; returning to {}, {} of at most {} times", what, prefix,
                             roll_backs_, options_.non_finite_limit));
}

}  // namespace muster::inline v0_1::internal
