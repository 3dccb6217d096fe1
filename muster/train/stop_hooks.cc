// The hooks that end a run at a step.
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/train/hooks.h"

namespace muster::inline v0_1::hooks {
namespace {

void require_positive(const char* what, int64_t value) {
  if (value >= 1) return;
  throw invalid_argument(fmt::format("{} is {}; it must be 1 or more", what, value));
}

class StopAtStep : public Hook {
 public:
  explicit StopAtStep(const StopAtStepOptions& options) : options_(options) {}

  void begin(const RunInfo& info) override {
    control_ = info.control;
    last_ = options_.last_step.value_or(info.start_step + options_.num_steps.value_or(0));
    if (info.mode != Mode::kTrain) {
      throw invalid_argument("hooks::stop_at_step ends training, and was given to something else",
                             "limit an evaluation with EvaluateOptions.steps");
    }
    if (info.start_step >= last_) control_.request_stop();
  }
  // Before the step, so that several workers agree on the end with this one.
  void before_step(int64_t global_step) override {
    if (global_step >= last_) control_.request_stop();
  }

 private:
  const StopAtStepOptions options_;
  int64_t last_ = 0;
  RunControl control_;
};

class StopAtCheckpointStep : public Hook {
 public:
  explicit StopAtCheckpointStep(int64_t last_step) : last_step_(last_step) {}

  void begin(const RunInfo& info) override { control_ = info.control; }
  // Not in after_save(), which may come some steps later: the same runs end at the same step. The
  // end of the run sees to it that the checkpoint is there.
  void before_save(int64_t global_step) override {
    if (global_step < last_step_ || control_.stop_requested()) return;
    log::info(fmt::format("stopping: the checkpoint of step {} is of step {} or later", global_step,
                          last_step_));
    control_.request_stop();
  }

 private:
  const int64_t last_step_;
  RunControl control_;
};

}  // namespace

std::shared_ptr<Hook> stop_at_step(const StopAtStepOptions& options) {
  if (options.num_steps.has_value() == options.last_step.has_value()) {
    throw invalid_argument(
        fmt::format("hooks::stop_at_step got {} of num_steps and last_step",
                    options.num_steps ? "both" : "neither"),
        "num_steps counts from where the run starts, last_step is the step to end at: set one");
  }
  if (options.num_steps) require_positive("hooks::stop_at_step num_steps", *options.num_steps);
  if (options.last_step) require_positive("hooks::stop_at_step last_step", *options.last_step);
  return std::make_shared<StopAtStep>(options);
}

std::shared_ptr<Hook> stop_at_checkpoint_step(int64_t last_step) {
  require_positive("hooks::stop_at_checkpoint_step last_step", last_step);
  return std::make_shared<StopAtCheckpointStep>(last_step);
}

}  // namespace muster::inline v0_1::hooks
