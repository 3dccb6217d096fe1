// The gradients of one worker's step on a server. Thread safety: one thread at a time.
#pragma once

#include <vector>

#include "muster/distribute/row_tables.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

class StagedGradients {
 public:
  // Those of the shards of one group.
  struct Part {
    std::vector<Tensor> buffers;                // as the weights lie
    std::vector<bool> used;                     // [parameter]
    std::vector<distribute::RowGradient> rows;  // [table]
  };
  std::vector<Part> parts;
  double weight = 1;  // among those of other workers
  bool mean = true;   // they are averaged, and not added
};

}  // namespace muster::inline v0_1::ps
