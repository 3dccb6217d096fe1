// Runs a model function without training it, for evaluation and prediction.
// Thread safety: one thread.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/warm_start_settings.h"
#include "muster/distribute/variable_table.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/input_fn.h"
#include "muster/train/model_context.h"
#include "muster/train/results.h"
#include "muster/train/summary_calls.h"

namespace muster::inline v0_1 {

// A model in one mode with variables of its own. It is built once; loading another checkpoint only
// replaces values.
class ModelRunner {
 public:
  // `params` must outlive the runner. Variables are on `device`, where batches are to be.
  ModelRunner(ModelFn model_fn, Mode mode, uint64_t seed, const nlohmann::json& params,
              Device device = at::kCPU);
  Device device() const { return variables_.device(); }

  // The next call uses these values; without a checkpoint (nullptr) freshly initialised ones, as
  // the model is built. Throws InvalidArgument listing missing and reshaped variables; variables
  // that are only in the checkpoint do not matter. `version` identifies these values for holds();
  // empty: holds() is not used.
  void load(const Checkpoint* checkpoint, const std::string& name, std::string version = {});
  // Whether the variables hold the values that were loaded as `version`, unchanged: to load them
  // again would change nothing. It is false before the model was built.
  bool holds(const std::string& version) const;
  // The next call uses freshly initialised values and, from another run, the values that `settings`
  // choose. Throws the errors of muster::warm_start(), in build() if there are no variables yet.
  void warm_start(const WarmStartSettings& settings, FileSystem& fs);
  // Creates the variables, if there are none yet, and gives them the values that were loaded.
  void build(const Batch& batch);
  // Runs batch number `index` (0, 1, ...) of a pass over the data, without autograd; builds first.
  // The random numbers of layers depend on the index, as in training on the replica.
  EstimatorSpec run(const Batch& batch, int64_t index);

  int64_t global_step() const { return global_step_; }
  // Sets the step of values that another replica has loaded.
  void set_global_step(int64_t step) { global_step_ = step; }
  // The summaries of the model function; nothing until a call of begin() on it.
  internal::SummaryCalls summaries() { return internal::SummaryCalls(context_.summary()); }
  // The hooks of the EstimatorSpec the model was built with, for its mode; none before.
  const std::vector<std::shared_ptr<Hook>>& hooks() const { return hooks_; }
  // In creation order; none before the model was built.
  std::vector<const Variable*> variables() const;

 private:
  void restore();
  // How often the variables were written to, in place, since they were made.
  int64_t writes() const;
  void check_fresh() const;

  ModelFn model_fn_;
  Mode mode_;
  uint64_t seed_;
  distribute::VariableTable variables_;
  ModelContext context_;
  bool built_ = false;
  std::vector<std::shared_ptr<Hook>> hooks_;
  std::map<std::string, Tensor> values_;  // to be loaded once the variables exist
  std::string source_;
  std::string version_;
  int64_t writes_ = 0;  // when the version was restored
  bool pending_ = false;
  std::function<void()> start_warm_;  // likewise; once
  bool warm_ = false;                 // the variables hold a warm start's values
  bool restored_ = false;             // the variables hold values of some checkpoint
  int64_t global_step_ = 0;
};

}  // namespace muster::inline v0_1
