// The results of training and evaluation.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "muster/train/prediction.h"

namespace muster::inline v0_1 {

// The result of a training run.
struct TrainResult {
  int64_t global_step = 0;
  int64_t steps = 0;          // made by this call
  bool end_of_input = false;  // whether the end of the input ended the run
  bool stopped = false;       // whether a hook ended the run
  // By RunConfig::non_finite: the number of skipped steps, and of returns to the last save.
  int64_t skipped_steps = 0;
  int64_t roll_backs = 0;
};

// Metrics by name. "loss" (the mean over batches) and "global_step" are always there.
using EvalResult = std::map<std::string, double>;

// An evaluation during training.
struct Evaluation {
  int64_t global_step = 0;
  std::string name{};  // of its EvalSpec or EvaluateOptions
  EvalResult results{};
};

}  // namespace muster::inline v0_1
