// What training and evaluation give back.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/train/prediction.h"

namespace muster::inline v0_1 {

// What a training run did.
struct TrainResult {
  int64_t global_step = 0;
  int64_t steps = 0;          // made by this call
  bool end_of_input = false;  // rather than steps, max_steps or a hook
};

// Metrics by name. "loss" (the mean over batches) and "global_step" are always there.
using EvalResult = std::map<std::string, double>;

}  // namespace muster::inline v0_1
