// What tests of canned estimators and of heads in Estimators share. Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/estimator.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

// Trains and evaluates on so many replicas. It prints little, and reads no TF_CONFIG.
inline RunConfig run_config(const std::string& model_dir, int replicas = 1) {
  const distribute::StrategyPtr strategy =
      replicas == 1 ? nullptr : distribute::mirrored({.replicas = replicas});
  return {.model_dir = model_dir,
          .save_checkpoints_steps = 1000,
          .log_step_count_steps = 1000,
          .train_distribute = strategy,
          .eval_distribute = strategy,
          .progress_line = false,
          .environment = Environment{}};
}

// How far the variables and slots of two trained models are apart: the largest max|a - b| /
// max|b| of one. The names must be the same.
inline double largest_distance(const Estimator& a, const Estimator& b) {
  if (a.get_variable_names() != b.get_variable_names())
    throw std::runtime_error("the models hold different variables");
  double largest = 0;
  for (const std::string& name : a.get_variable_names()) {
    const Tensor right = b.get_variable_value(name).to(kFloat64);
    const Tensor difference = (a.get_variable_value(name).to(kFloat64) - right).abs();
    const double size = right.abs().max().item<double>();
    const double error = difference.max().item<double>();
    largest = std::max(largest, size > 0 ? error / size : error);
  }
  return largest;
}

}  // namespace muster::inline v0_1::testing
