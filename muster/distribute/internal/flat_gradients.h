// Gradients of one replica on a device, brought together into memory as flat as that of its
// weights, so that an update is few kernels however many variables there are: to start one takes
// the CPU longer than a GPU needs for most of them.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <vector>

#include "muster/distribute/flat_parameters.h"

namespace muster::inline v0_1::distribute::internal {

class FlatGradients {
 public:
  // `parameters` must outlive this object.
  explicit FlatGradients(const FlatParameters& parameters);

  // Takes the gradients that autograd left in the variables, and zeros if there are none.
  void take();
  // As FlatParameters::update_flat() wants them.
  const std::vector<Tensor>& gradients() const { return gradients_; }
  const std::vector<bool>& used() const { return used_; }

 private:
  const FlatParameters& parameters_;
  std::vector<Tensor> gradients_;  // [buffer]
  std::vector<Tensor> views_;      // [parameter], flat
  std::vector<bool> used_;         // [parameter]: there was a gradient
};

}  // namespace muster::inline v0_1::distribute::internal
