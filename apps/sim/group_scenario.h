// Workers in step: the real CoordinatorClient of each task and the real Coordinator of the chief,
// on a network that delays, loses, repeats and cuts. Tasks that fail start again, each by itself,
// as a scheduler restarts them, and continue from the last checkpoint.
//
// Laws: a barrier lets no member through before all members have come; when a group has passed a
// barrier, no earlier group passes one; all members of a group make the same step; the steps that
// count are made once, in order; no wait is longer than its bound; the run ends.
#pragma once

#include "apps/sim/group_stage.h"
#include "apps/sim/simulation.h"

namespace muster::sim {

class GroupScenario : public Scenario {
 public:
  using Planted = PlantedCoordinator;
  GroupScenario() = default;
  explicit GroupScenario(Planted planted) : planted_(planted) {}

  std::string name() const override { return "group"; }
  std::string about() const override {
    return "workers in step lose each other, start again and continue";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  Planted planted_;
};

}  // namespace muster::sim
