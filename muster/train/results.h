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
  bool stopped = false;       // a hook asked for it
  // By RunConfig::non_finite: steps that were left out, and returns to the last save.
  int64_t skipped_steps = 0;
  int64_t roll_backs = 0;
};

// Metrics by name. "loss" (the mean over batches) and "global_step" are always there.
using EvalResult = std::map<std::string, double>;

// An evaluation that was made while a model was trained.
struct Evaluation {
  int64_t global_step = 0;
  std::string name{};  // of its EvalSpec or EvaluateOptions
  EvalResult results{};
};

}  // namespace muster::inline v0_1
