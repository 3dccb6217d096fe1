// Options of Model::compile(). Thread safety: values.
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
  // "adam", "sgd", "rmsprop" and so on, in upper or lower case.
  OptimizerChoice(const char* name) : choice_(std::string(name)) {}               // NOLINT
  OptimizerChoice(std::string name) : choice_(std::move(name)) {}                 // NOLINT
  OptimizerChoice(optim::Optimizer optimizer) : choice_(std::move(optimizer)) {}  // NOLINT

  // Throws InvalidArgument for an unknown name, with the nearest one.
  optim::Optimizer make() const;

 private:
  std::variant<std::string, optim::Optimizer> choice_;
};

// Options of Model::compile().
struct CompileOptions {
  OptimizerChoice optimizer = "rmsprop";  // Keras's default
  // The loss of the output, or of each of several outputs. `losses` sets it by the output's name;
  // an output without an entry there has no loss.
  Loss loss = {};
  std::map<std::string, Loss> losses = {};
  std::map<std::string, double> loss_weights = {};  // of outputs, by name; default 1
  // Metrics of the output, or of each of several outputs, shown as "<output>_<metric>".
  std::vector<MetricChoice> metrics = {};
  std::map<std::string, std::vector<MetricChoice>> output_metrics = {};  // by name, in addition
  // The same, but weighted by sample_weight and class_weight.
  std::vector<MetricChoice> weighted_metrics = {};
  std::string mixed_precision = {};  // "bfloat16"; see mixed_precision()
  int64_t accumulate_steps = 1;      // batches that make one update
};

}  // namespace muster::inline v0_1::keras
