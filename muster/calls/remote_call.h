// The context of a function that a ClusterCoordinator schedules, while a worker runs it.
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
  // Returns the next batch of the function's data set on this worker. Throws InvalidArgument for a
  // function that was defined without a data set.
  const Batch& batch() const;
  // Returns the arguments of schedule(); FunctionOptions::arguments while the model is built.
  const std::vector<Tensor>& arguments() const { return arguments_; }
  // Returns the number of updates that this task knows of: 0 while the model is built.
  int64_t step() const { return step_; }
  // Returns a variable of your own. The first call with this name, while the model is built,
  // creates it.
  const Tensor& variable(const VariableSpec& spec) const;
  // Returns a key that differs for each name, step and worker.
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
