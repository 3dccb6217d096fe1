// A run on parameter servers: the real ledger (LedgerHost, StepLedger, Membership), which decides
// which steps count, and models of the protocol around it, as WorkerRun, ShardServer and the
// server's process have it. These three need sockets, thread pools and the machine's clock, and
// wait inside of calls, so they do not run in simulated time.
//
// Laws: each example that a worker has seen is in the weights once, in each checkpoint; all servers
// have the same steps in a checkpoint; no update is left out, and weights are as old as
// max_staleness allows; the ledger refuses no request except for a loss; the run ends, with all
// steps.
#pragma once

#include "apps/sim/simulation.h"

namespace muster::sim {

class ServersScenario : public Scenario {
 public:
  // What tests of the simulator plant in the servers.
  struct Planted {
    bool applies_twice = false;    // a request that comes late or again is not recognized
    bool forgets_on_loss = false;  // gradients of a lost worker are dropped, although they count
  };
  ServersScenario() = default;
  explicit ServersScenario(Planted planted) : planted_(planted) {}

  std::string name() const override { return "servers"; }
  std::string about() const override {
    return "workers push to parameter servers, which are lost and come back";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  Planted planted_;
};

}  // namespace muster::sim
