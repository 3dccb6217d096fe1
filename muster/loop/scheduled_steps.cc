#include "muster/loop/scheduled_steps.h"

#include <atomic>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {
namespace {
std::atomic<MakeScheduledSteps> registered_maker = nullptr;
}  // namespace

void register_scheduled_steps(MakeScheduledSteps make) { registered_maker = make; }

std::unique_ptr<ScheduledSteps> make_scheduled_steps(StrategyPtr strategy, StepFunction step,
                                                     const Dataset& data,
                                                     ScheduledStepsOptions options) {
  const MakeScheduledSteps make = registered_maker;
  if (make == nullptr) {
    throw invalid_argument(
        "steps on parameter servers are of Muster's servers, with which this program is not linked",
        "link the part: find_package(muster COMPONENTS servers) and target_link_libraries(... "
        "muster::servers)");
  }
  return make(std::move(strategy), std::move(step), data, std::move(options));
}

}  // namespace muster::inline v0_1::distribute
