#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/manager.h"
#include "muster/train/hooks.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::hooks {
namespace {

class GlobalStepWaiter : public Hook {
 public:
  explicit GlobalStepWaiter(const GlobalStepWaiterOptions& options)
      : options_(options),
        clock_(clock_or_system(options.clock)),
        checkpoints_(options.model_dir, {.fs = options.fs, .clock = options.clock}) {}

  void begin(const RunInfo&) override {
    const TimePoint begun = clock_.now();
    for (bool told = false; !reached(); told = true) {
      const double waited = to_seconds(clock_.now() - begun);
      if (!told) log::info(wait_text());
      if (stop_signal() != 0) {
        throw Error(ErrorKind::kCancelled,
                    fmt::format("stopped by {} while {}", stop_signal_name(), wait_text()));
      }
      if (waited >= options_.timeout.count()) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("{} took {:.0f} s, the most it may take", wait_text(), waited),
                    "check that the other run makes progress, or raise timeout");
      }
      clock_.sleep_for(from_seconds(options_.poll_interval));
    }
  }

 private:
  bool reached() const {
    const std::optional<std::string> latest = checkpoints_.latest();
    return latest && checkpoint_step(*latest) >= options_.wait_until_step;
  }
  std::string wait_text() const {
    return fmt::format("waiting for step {} in {}", options_.wait_until_step, options_.model_dir);
  }

  const GlobalStepWaiterOptions options_;
  Clock& clock_;
  const CheckpointManager checkpoints_;
};

}  // namespace

std::shared_ptr<Hook> global_step_waiter(const GlobalStepWaiterOptions& options) {
  if (options.model_dir.empty())
    throw invalid_argument("hooks::global_step_waiter got an empty model_dir");
  if (options.wait_until_step < 0) {
    throw invalid_argument(
        fmt::format("hooks::global_step_waiter got wait_until_step = {}; it must be 0 or more",
                    options.wait_until_step));
  }
  for (const auto& [name, value] :
       {std::pair{"poll_interval", options.poll_interval}, std::pair{"timeout", options.timeout}}) {
    if (value.count() > 0) continue;
    throw invalid_argument(fmt::format(
        "hooks::global_step_waiter got {} = {:g} s; it must be more than 0", name, value.count()));
  }
  return std::make_shared<GlobalStepWaiter>(options);
}

}  // namespace muster::inline v0_1::hooks
