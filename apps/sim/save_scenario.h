// Checkpoints on a simulated disk: a trainer that saves with a thread of its own, and an evaluator
// that reads. The code of checkpoints, of their leases and of saves in flight is the real one
// (CheckpointManager, Lease, CheckpointWriter, PendingSave, FailedSaves).
//
// Laws: a checkpoint that can be found is whole; what a save has returned survives every fault; a
// resumed run has used each example once; no checkpoint is deleted that a live evaluator's lease
// keeps; a save in flight ends; the run continues while fewer saves fail than the limit; after a
// save without faults no other files are left.
#pragma once

#include <functional>
#include <memory>

#include "apps/sim/simulation.h"
#include "muster/base/file_system.h"

namespace muster::sim {

class SaveScenario : public Scenario {
 public:
  // What tests of the simulator plant: a wrong file system around that of each process; a trainer
  // that resumes one example too late.
  struct Planted {
    std::function<std::unique_ptr<FileSystem>(FileSystem&)> files{};
    bool skips_an_example = false;
  };
  SaveScenario() = default;
  explicit SaveScenario(Planted planted) : planted_(std::move(planted)) {}

  std::string name() const override { return "saves"; }
  std::string about() const override {
    return "a trainer saves while it trains, and an evaluator reads, on a disk that fails";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  Planted planted_;
};

}  // namespace muster::sim
