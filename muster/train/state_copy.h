// A copy of a run's state, which a save may write while the run makes further steps.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <thread>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns copies of the tensors that a file needs, which `state` has while the run stands still.
using CopyOfState =
    std::function<std::map<std::string, Tensor>(const std::map<std::string, Tensor>& state)>;

class MUSTER_PART_EXPORT StateCopy {
 public:
  // Returns copies of the tensors in the CPU's memory, in checkpoint_memory(), with their checksums
  // noted. It takes the memory of an earlier result again where the caller has dropped that, so
  // that a copy after the first costs no new pages. What a checkpoint cannot hold (undefined, not
  // dense) is returned as it is: the save reports it.
  std::map<std::string, Tensor> of(const std::map<std::string, Tensor>& tensors);
  // Whether all floating-point numbers of the last result were finite. of() finds out while it
  // copies.
  bool all_finite() const { return all_finite_; }
  // Gets the memory for copies of these tensors, and returns. A thread of low priority touches the
  // pages, so that the first copy costs no new pages either. of() waits for it.
  void prepare(const std::map<std::string, Tensor>& tensors);

 private:
  // copies_ has memory that is free for each of the tensors. Returns the part of it that is new.
  std::span<std::byte> make_room(const std::map<std::string, Tensor>& tensors);

  std::map<std::string, Tensor> copies_;  // the last result
  bool all_finite_ = true;
  std::jthread touches_;  // pages of copies_, so it ends before them
};

}  // namespace muster::inline v0_1
