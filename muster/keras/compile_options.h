// What Model::compile() is given. Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/keras/loss.h"
#include "muster/keras/metric_choice.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::keras {

// An optimizer, or the name of one with Keras's defaults.
class MUSTER_EXPORT OptimizerChoice {
 public:
  // "adam", "sgd", "rmsprop" and so on, in capitals or not.
  OptimizerChoice(const char* name) : choice_(std::string(name)) {}               // NOLINT
  OptimizerChoice(std::string name) : choice_(std::move(name)) {}                 // NOLINT
  OptimizerChoice(optim::Optimizer optimizer) : choice_(std::move(optimizer)) {}  // NOLINT

  // Throws InvalidArgument with the nearest name for an unknown one.
  optim::Optimizer make() const;

 private:
  std::variant<std::string, optim::Optimizer> choice_;
};

// Options of Model::compile().
struct CompileOptions {
  OptimizerChoice optimizer = "rmsprop";  // Keras's default
  // Of the output; with several outputs, of each of them. `losses` says it by the output's name,
  // and an output that it leaves out has none.
  Loss loss = {};
  std::map<std::string, Loss> losses = {};
  std::map<std::string, double> loss_weights = {};  // of outputs, by name; 1 where it says none
  // Of the output; with several outputs, of each of them, shown as "<output>_<metric>".
  std::vector<MetricChoice> metrics = {};
  std::map<std::string, std::vector<MetricChoice>> output_metrics = {};  // by name, beside them
  // The same, weighted by sample_weight and class_weight.
  std::vector<MetricChoice> weighted_metrics = {};
  std::string mixed_precision = {};  // "bfloat16"; see mixed_precision()
  int64_t accumulate_steps = 1;      // batches that make one update
};

}  // namespace muster::inline v0_1::keras
