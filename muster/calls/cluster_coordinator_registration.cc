// Steps of a ClusterCoordinator, for code that uses only core.
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/calls/cluster_coordinator.h"
#include "muster/loop/scheduled_steps.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_calls_linked;
const int muster_calls_linked = 1;
}

namespace muster::inline v0_1::distribute {
namespace {

class CoordinatorSteps final : public ScheduledSteps {
 public:
  CoordinatorSteps(StrategyPtr strategy, StepFunction step, const Dataset& data,
                   ScheduledStepsOptions options)
      : coordinator_(std::move(strategy), {.seed = options.seed,
                                           .model_dir = std::move(options.model_dir),
                                           .keep_checkpoint_max = 1,
                                           .initial_state = std::move(options.initial_state),
                                           .notes = std::move(options.notes),
                                           .beside = std::move(options.beside),
                                           .environment = std::move(options.environment)}),
        step_(coordinator_.define(
            "train_step",
            [step = std::move(step)](const RemoteCall& call) { return step(call.batch()); },
            {.training = true,
             .data = coordinator_.distribute("data", data),
             .loss_reduction = options.loss_reduction,
             .returns_step_loss = true})) {}

  bool serve() override { return coordinator_.serve(); }
  int num_workers() const override { return coordinator_.num_workers(); }
  void schedule() override { under_way_.push_back(coordinator_.schedule(step_)); }
  std::vector<Tensor> fetch() override {
    std::vector<Tensor> given = coordinator_.fetch(under_way_.front());
    under_way_.pop_front();
    return given;
  }
  int64_t step() override { return coordinator_.step(); }
  Checkpoint state() override { return coordinator_.state(); }
  const std::map<std::string, std::string>& restored_notes() const override {
    return coordinator_.restored_notes();
  }
  std::optional<bool> save(int64_t max_failed_saves, bool asynchronous) override {
    const std::string prefix =
        coordinator_.save({.max_failed_saves = max_failed_saves, .asynchronous = asynchronous});
    if (asynchronous && !prefix.empty()) return std::nullopt;
    return !prefix.empty();
  }
  bool settle_save() override { return coordinator_.end_saving(); }
  bool await_save() noexcept override {
    try {
      return coordinator_.end_saving();
    } catch (...) {
      log::warning(current_error().message());
      return false;
    }
  }

 private:
  ClusterCoordinator coordinator_;
  const RemoteFunctionName step_;
  std::deque<RemoteValue> under_way_;
};

[[maybe_unused]] const bool registered = [] {
  register_scheduled_steps([](StrategyPtr strategy, StepFunction step, const Dataset& data,
                              ScheduledStepsOptions options) -> std::unique_ptr<ScheduledSteps> {
    return std::make_unique<CoordinatorSteps>(std::move(strategy), std::move(step), data,
                                              std::move(options));
  });
  return true;
}();

}  // namespace
}  // namespace muster::inline v0_1::distribute
