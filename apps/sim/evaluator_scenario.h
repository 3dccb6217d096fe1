// A chief that trains and saves, and one or two evaluators, on one disk. The real parts are
// EvaluatorTask, EvaluatorLink, their journal, leases and run_end.json, and CheckpointManager,
// which deletes old checkpoints meanwhile. The evaluation itself reads the checkpoint and takes
// time. The thread of a lease has the machine's clock, so the main thread of each process makes the
// beats.
//
// Laws: a checkpoint that is evaluated is whole, and stays until its evaluation has ended, while
// the lease is kept; an evaluator that wants every checkpoint gets each one; an evaluator ends by
// itself only after the last step is saved; the last checkpoint is evaluated before the chief ends;
// no wait is longer than its bound, and the run ends.
#pragma once

#include <functional>
#include <memory>

#include "apps/sim/simulation.h"
#include "muster/base/file_system.h"

namespace muster::sim {

class EvaluatorScenario : public Scenario {
 public:
  // What tests of the simulator plant.
  struct Planted {
    // A wrong file system around that of the chief.
    std::function<std::unique_ptr<FileSystem>(FileSystem&)> chief_files{};
    bool hands_over_early = false;   // the chief says before its last step that it makes no more
    bool skips_checkpoints = false;  // an evaluator takes the newest checkpoint, and not each one
  };
  EvaluatorScenario() = default;
  explicit EvaluatorScenario(Planted planted) : planted_(std::move(planted)) {}

  std::string name() const override { return "evaluator"; }
  std::string about() const override {
    return "an evaluator follows the checkpoints of a chief, which deletes old ones";
  }
  std::vector<Fault> faults(uint64_t seed) const override;
  std::string run(uint64_t seed, const std::vector<Fault>& faults, Trace& trace) const override;

 private:
  Planted planted_;
};

}  // namespace muster::sim
