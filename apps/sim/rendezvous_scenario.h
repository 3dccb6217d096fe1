// `muster run --nodes` on two to four machines: the real Rendezvous, and of each launcher what
// decides (Launcher) and what it knows of its connection (RendezvousLink). Connections that are
// late and break, threads and tasks are models.
//
// Laws: tasks of two starts of the run never run at the same time; no start begins while a machine
// still has tasks of an earlier one; a launcher that is cut off ends its tasks in time; all
// launchers that hear the end have the same exit code; 0 means that all tasks of one start ended
// well; there are no more starts than the budget allows; the run ends.
#pragma once

#include "apps/sim/simulation.h"

namespace muster::sim {

class RendezvousScenario : public Scenario {
 public:
  // What tests of the simulator plant.
  struct Planted {
    bool starts_while_others_run = false;  // a launcher says that it is ready while its tasks run
    bool ignores_silence = false;          // a launcher that is cut off keeps its tasks
    bool claims_to_have_heard = false;     // a launcher says that it knows of every start
    // In an elastic run:
    bool losses_are_failures = false;  // a launcher says that a lost task ends the start
    bool restarts_unasked = false;     // it starts a lost task again without asking
    bool never_heard = false;          // it does not say of which start it has heard
    bool never_cut_off = false;        // nor that it ends its tasks because it was lost
  };
  RendezvousScenario() = default;
  explicit RendezvousScenario(Planted planted) : planted_(planted) {}

  std::string name() const override { return "rendezvous"; }
  std::string about() const override {
    return "launchers of several machines start, restart and end a run together";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  Planted planted_;
};

}  // namespace muster::sim
