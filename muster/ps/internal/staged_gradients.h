// The gradients of one worker's step on a server. Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "muster/base/shared_memory.h"
#include "muster/distribute/row_tables.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

class StagedGradients {
 public:
  // The gradients for the shards of one group.
  struct Part {
    std::vector<Tensor> buffers{};                // as the weights lie
    std::vector<bool> used{};                     // [parameter]
    std::vector<distribute::RowGradient> rows{};  // [table]
  };
  std::vector<Part> parts;
  // Their place, if that is memory which the worker writes to; it is the worker's until the worker
  // reports them, and the server's from then on until the step is settled.
  std::shared_ptr<const SharedMemory> area;
  double weight = 1;          // compared with gradients of other workers
  bool mean = true;           // they are averaged, and not added
  double loss = 0;            // of the step
  std::vector<bool> updates;  // [optimizer]: whether it makes an update; empty: all do
};

}  // namespace muster::inline v0_1::ps
