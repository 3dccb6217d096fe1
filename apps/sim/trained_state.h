// A training without a model, whose checkpoints show whether each example was used once. Thread
// safety: a value.
#pragma once

#include <cstdint>

#include "muster/base/random.h"
#include "muster/checkpoint/checkpoint.h"

namespace muster::sim {

// The state of a training: each example changes `weights` in a way that depends on all before it.
struct TrainedState {
  int64_t step = 0;
  int64_t example = 0;  // the next one
  uint64_t weights = 17;

  void train() {
    weights = derive_key(weights, {static_cast<uint64_t>(example++)}).key;
    ++step;
  }
  Checkpoint checkpoint() const;
};

// The state that a whole checkpoint of a correct run has. Throws Broken for another checkpoint.
TrainedState state_of(const Checkpoint& read);

}  // namespace muster::sim
