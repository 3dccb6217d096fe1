#include "apps/sim/rendezvous_scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/sim/rendezvous_world.h"
#include "muster/base/random.h"

namespace muster::sim {
namespace {

constexpr double kLastStrike = 100;  // seconds: no fault begins later
constexpr double kLongestStrike = 25;

}  // namespace

std::vector<Fault> RendezvousScenario::faults(uint64_t seed) const {
  Random random(derive_key(seed, {id_of("rendezvous"), id_of("faults")}));
  std::vector<Fault> faults(1 + random.uniform_below(6));
  for (Fault& fault : faults) {
    fault.at = kLastStrike * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(kRendezvousFaults));
    // The end of the run by a signal hides what comes after it.
    if (fault.kind == kStopSignal && random.uniform_below(3) != 0) fault.kind = kMachineIsCutOff;
    fault.task = static_cast<int>(random.uniform_below(12));
    fault.amount = kLongestStrike * random.uniform();
    const std::string node = fmt::format("machine {} (modulo their number)", fault.task);
    switch (fault.kind) {
      case kTaskDies:
        fault.text = "a task dies on " + node;
        break;
      case kLauncherDies:
        fault.text = "the launcher dies on " + node;
        break;
      case kLauncherStands:
        fault.text =
            fmt::format("the launcher stands still for {:.1f} s on {}", fault.amount, node);
        break;
      case kMachineIsCutOff:
        fault.text = fmt::format("the network is cut for {:.1f} s at {}", fault.amount, node);
        break;
      case kConnectionBreaks:
        fault.text = "the connection breaks of " + node;
        break;
      case kNetworkIsSlow:
        fault.text = fmt::format("words take up to 2 s, for {:.1f} s", fault.amount);
        break;
      default:
        fault.text = "SIGTERM to the launcher of " + node;
    }
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string RendezvousScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                                    Trace& trace) const {
  return RendezvousWorld(seed, faults, planted_, trace).run();
}

}  // namespace muster::sim
