// What a function that a ClusterCoordinator schedules knows while a worker calls it.
// Thread safety: belongs to the thread of the call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute {

class RemoteReplica;

class MUSTER_EXPORT RemoteCall {
 public:
  // The next batch of the function's data set on this worker. Throws InvalidArgument for a function
  // that was defined without one.
  const Batch& batch() const;
  // What schedule() was given. While the model is built: FunctionOptions::arguments.
  const std::vector<Tensor>& arguments() const { return arguments_; }
  // Updates so far, as this task knows them: 0 while the model is built.
  int64_t step() const { return step_; }
  // A variable of one's own: created at the first call with this name, while the model is built.
  const Tensor& variable(const VariableSpec& spec) const;
  // Another key for each name, step and worker.
  RandomKey random_key(const std::string& name) const;

 private:
  friend class RemoteReplica;
  RemoteCall(VariableStore& variables, RandomKey key, int64_t step, const Batch* batch,
             const std::vector<Tensor>& arguments)
      : variables_(variables), key_(key), step_(step), batch_(batch), arguments_(arguments) {}

  VariableStore& variables_;
  const RandomKey key_;
  const int64_t step_;
  const Batch* batch_;
  const std::vector<Tensor>& arguments_;
};

}  // namespace muster::inline v0_1::distribute
