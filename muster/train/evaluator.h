// Runs a model function over data without training it: evaluation and prediction, on one replica.
// Thread safety: one thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/variable_table.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/input_fn.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {

// Metrics by name. "loss" (the mean over batches) and "global_step" are always there.
using EvalResult = std::map<std::string, double>;
// The outputs of one example (or batch) by name.
using Prediction = std::map<std::string, Tensor>;

// A model in one mode with variables of its own. It is built once; loading another checkpoint only
// replaces values.
class ModelRunner {
 public:
  // `params` must outlive the runner.
  ModelRunner(ModelFn model_fn, Mode mode, uint64_t seed, const nlohmann::json& params);

  // The next call uses these values; without a checkpoint (nullptr) freshly initialised ones, as
  // the model is built. Throws InvalidArgument listing missing and reshaped variables; what is only
  // in the checkpoint does not matter.
  void load(const Checkpoint* checkpoint, const std::string& name);
  // One batch, without autograd.
  EstimatorSpec run(const Batch& batch);
  int64_t global_step() const { return global_step_; }

 private:
  void restore();

  ModelFn model_fn_;
  Mode mode_;
  distribute::VariableTable variables_;
  ModelContext context_;
  bool built_ = false;
  std::map<std::string, Tensor> values_;  // to be loaded once the variables exist
  std::string source_;
  bool pending_ = false;
  bool restored_ = false;  // the variables hold values of some checkpoint
  int64_t global_step_ = 0;
  int64_t batches_ = 0;
};

// How long to evaluate, and who may end it.
struct EvaluateLoop {
  std::optional<int64_t> steps;                    // batches; all of the data when unset
  uint64_t seed = 0;                               // of the data set's shuffles
  std::function<void(int64_t batch)> after_batch;  // for progress
  std::function<bool()> interrupted;               // asked before every batch
};

// Throws InvalidArgument when the input gives no data, Cancelled when interrupted.
EvalResult evaluate(ModelRunner& runner, const Dataset& dataset, const EvaluateLoop& loop);

}  // namespace muster::inline v0_1
