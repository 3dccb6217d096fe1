// Where the gradients of a model lie in flat memory, one buffer for each dtype.
// Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute {

struct MUSTER_PART_EXPORT GradientLayout {
  // One weight, and the place of its gradient.
  struct Parameter {
    std::string name{};
    Tensor weight{};       // the leaf of the graph whose gradient it is
    int buffer = 0;        // index into buffers
    int64_t offset = 0;    // elements, in the buffer
    int64_t elements = 0;  // of the gradient
    int64_t padded = 0;    // elements, with the padding after them
  };
  struct Buffer {
    DType dtype = kFloat32;
    int64_t elements = 0;
  };

  // The layout of these named weights in this order: each begins on a cache line of 64 bytes.
  static GradientLayout of(const std::vector<std::pair<std::string, Tensor>>& weights);
  // Bytes of all gradients, padding included.
  int64_t bytes() const;

  std::vector<Parameter> parameters{};
  std::vector<Buffer> buffers{};
};

}  // namespace muster::inline v0_1::distribute
