// The networks of xla_benchmark, trained by an Estimator on a device that has a name: the small
// convolutional network of the example mnist, ResNet-18 on images of 64x64, and a GPT of one block
// on texts of 128 bytes, each by SGD with momentum. benchmarks/peers/networks_xla.py has the same
// ones in PyTorch. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/train/hook.h"

namespace muster::bench {

struct XlaNetwork {
  std::string name{};
  std::string title{};
  int64_t batch = 16;
  int64_t classes = 1000;
};

const std::vector<XlaNetwork>& xla_networks();

// Trains it on one thread with this hook, until the hook stops the run. Checkpoints: none.
void train_network(const XlaNetwork& network, const std::string& device,
                   const std::string& model_dir, std::shared_ptr<Hook> hook);

}  // namespace muster::bench
