// A run on parameter servers: the real servers with their ledger (ps::serve(), ShardServer,
// LedgerHost), and the real WorkerRun, ServerConnections, heartbeats and background tasks of each
// worker, on simulated connections, threads and clock. What is a model is what lies above and
// below: the loop of a worker's steps (RunDriver), its model, which counts examples, and TCP.
// Checkpoints are kept by the world: no disk takes part.
//
// Laws: each example that a worker has seen is in the weights once, in each checkpoint; all servers
// have the same steps in a checkpoint; weights hold no example twice, and each that their worker
// has made; they are as old as max_staleness allows; a server that is asked to stop leaves after
// a save; no task fails for anything but a loss; the run ends, with all steps.
#pragma once

#include "apps/sim/servers_stage.h"
#include "apps/sim/simulation.h"

namespace muster::sim {

class ServersScenario : public Scenario {
 public:
  ServersScenario() = default;
  explicit ServersScenario(PlantedServers planted) : planted_(planted) {}

  std::string name() const override { return "servers"; }
  std::string about() const override {
    return "workers push to parameter servers, which are lost and come back";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  PlantedServers planted_;
};

}  // namespace muster::sim
