// Finds out whether all workers have the same weights, at next to no cost.
// Thread safety: belongs to the loop's thread.
//
// Each backward() compares the mean size of at most 64 numbers of one weight, at another place each
// time. Weights that differ once differ from then on, because all workers add the same gradients.
// Workers on different processors may round an update differently: a difference of 1 / 65536 of the
// mean size, or of 2^-26 in a size near 0, is not one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

struct WeightSample {
  // The base-2 logarithm of the mean size, in units of 1 / kTolerance of the difference that
  // rounding may make; 0 where it is not finite, and where nothing was compared.
  int64_t code = 0;
  std::string name{};  // of the weight
  double size = 0;     // mean size of the numbers

  static constexpr int64_t kTolerance = 256;
};

// Samples float32 or float64 weights on any device; `number` says which numbers of which weight,
// and is the same on all workers. Nothing is sampled of a weight whose memory has gaps.
WeightSample sample_weights(const std::vector<std::pair<std::string, Tensor>>& weights,
                            int64_t number);

}  // namespace muster::inline v0_1::internal
