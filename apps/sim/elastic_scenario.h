// Elastic runs: workers are lost, others continue from memory, and lost ones come back. The real
// parts are the coordinator and its clients; ElasticRun, which decides whether a run continues
// after an error; the choice of the worker whose memory counts; and what follows a step
// (next_step.h). Models are the order of steps and saves (RunDriver), what a worker keeps of its
// state (ElasticMember), and the collectives: these need a model and its tensors.
//
// Laws: all members of a group begin with one state, and no step of a member of the last group is
// lost while the chief lives; each example is in the weights once; only members of the newest group
// make steps that count, and these are made once, in order; a group ends after the step in which a
// worker has come; a task that is asked to stop makes one more step at most, and the others
// continue; a worker whose model differs makes none; no wait is longer than its bound; the run
// ends.
#pragma once

#include "apps/sim/group_stage.h"
#include "apps/sim/simulation.h"

namespace muster::sim {

class ElasticScenario : public Scenario {
 public:
  // What tests of the simulator plant.
  struct Planted {
    PlantedCoordinator coordinator{};
    bool least_gives = false;        // the state with the fewest steps counts
    bool reads_on = false;           // the examples of a dropped step are not read again
    bool ignores_newcomers = false;  // no group ends for a worker that comes
    bool stays = false;              // a task that is asked to stop goes on
  };
  ElasticScenario() = default;
  explicit ElasticScenario(Planted planted) : planted_(planted) {}

  std::string name() const override { return "elastic"; }
  std::string about() const override {
    return "workers of an elastic run are lost and come back, and the others continue from memory";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  Planted planted_;
};

}  // namespace muster::sim
