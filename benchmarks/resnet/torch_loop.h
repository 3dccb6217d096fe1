// A loop over LibTorch's own modules, as a contestant of resnet_benchmark: alone, through
// data_parallel(), or with a barrier after each step. Thread safety: one call in a process.
#pragma once

#include "benchmarks/resnet/contestants.h"

namespace muster::bench::resnet {

// entry.way is "libtorch" or "data_parallel", entry.network "resnet18": torchvision's, channels
// last, as benchmarks/peers/networks_torch.py makes it.
void train_torch_loop(const Entry& entry);

}  // namespace muster::bench::resnet
