// A copy of a run's state, which a save may write while the run makes further steps.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT StateCopy {
 public:
  // Returns copies of the tensors in the CPU's memory. It takes the memory of an earlier result
  // again where the caller has dropped that, so that a copy after the first costs no new pages.
  // What a checkpoint cannot hold (undefined, not dense) is returned as it is: the save reports it.
  std::map<std::string, Tensor> of(const std::map<std::string, Tensor>& tensors);
  // Whether all floating-point numbers of the last result were finite. of() finds out while it
  // copies.
  bool all_finite() const { return all_finite_; }

 private:
  std::map<std::string, Tensor> copies_;  // the last result
  bool all_finite_ = true;
};

}  // namespace muster::inline v0_1
