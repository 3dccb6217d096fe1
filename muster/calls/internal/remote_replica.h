// A task of a ClusterCoordinator that knows the model: builds it, and calls functions on it.
// Thread safety: belongs to the task's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/calls/internal/remote_functions.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/replica.h"
#include "muster/layers/step_context.h"
#include "muster/train/engine.h"
#include "muster/train/pace.h"

namespace muster::inline v0_1::distribute {

class RemoteReplica {
 public:
  explicit RemoteReplica(std::unique_ptr<Replica> replica);

  Replica& replica() { return *replica_; }
  Engine& engine() { return engine_; }
  // REQUIRES: it is not alone.
  SharedRun& run() { return *replica_->shared(); }

  // Calls the function that trains on zero rows of a batch of this form ("" without one), which
  // makes the variables; then begins the run, or joins it. On the chief, a run without a checkpoint
  // begins with the values of `initial`, if it is given.
  void build(const RemoteFunctions::Function& training, const std::string& form,
             const Checkpoint* initial = nullptr);

  // The result of a call.
  struct Made {
    bool over = false;  // it was not begun, since the run is over or this task was asked to stop
    std::vector<Tensor> results = {};
    std::vector<Tensor> state = {};   // after a step on servers, as own_state()
    std::optional<Error> error = {};  // the function threw it, or its numbers were not finite
  };
  // Calls the function on a batch, nullptr for a function without data, and makes the step it
  // describes. Throws errors that end this task's part in the run.
  Made call(const RemoteFunctions::Function& function, const Batch* batch,
            const std::vector<Tensor>& arguments);

  // The variables that live on no server and change with the data
  // (VariableSynchronization::kOnRead, as moving averages have it), in the order they were made;
  // copies. And the way back.
  std::vector<Tensor> own_state() const;
  void take_state(const std::vector<Tensor>& state);

  // A server calls this to learn the variables and optimizers.
  static optim::TrainOp describe(const RemoteFunctions::Function& training,
                                 VariableStore& variables, uint64_t seed, const std::string& form);

 private:
  // The number among the tasks that make calls, from 0: the first worker draws the same numbers as
  // a process alone.
  int number() const;
  static std::vector<Tensor> invoke(const RemoteFunctions::Function& function,
                                    VariableStore& variables, CallContext& calls, RandomKey key,
                                    int64_t step, const Batch* batch,
                                    const std::vector<Tensor>& arguments);

  const std::unique_ptr<Replica> replica_;
  Engine engine_;
  const std::unique_ptr<Pace> pace_;
  StepContext calls_;
};

}  // namespace muster::inline v0_1::distribute
