// An Estimator trains, evaluates and predicts with a model function. The strategy decides where it
// runs. Thread safety: one thread.
//
//   Estimator classifier(model_fn, {.model_dir = "model"});
//   classifier.train(train_input, {.max_steps = 1000});
//   EvalResult result = classifier.evaluate(eval_input);  // {"accuracy": …, "loss": …, …}
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/estimator/run_config.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/formats/torch_export.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/hook.h"
#include "muster/train/input_fn.h"
#include "muster/train/prediction.h"
#include "muster/train/results.h"

namespace muster::inline v0_1::cluster {
struct ResolvedCluster;
}

namespace muster::inline v0_1 {

// Options of Estimator::train(): when to end, and which hooks to call.
struct TrainOptions {
  std::optional<int64_t> steps{};              // more steps from the latest checkpoint
  std::optional<int64_t> max_steps{};          // the global step at which to end; at most one of
                                               // the two is set
  std::vector<std::shared_ptr<Hook>> hooks{};  // on every worker
};

// Options of Estimator::evaluate(). Fields of tf.estimator come first, in its order; others follow.
// PredictOptions does the same.
struct EvaluateOptions {
  std::optional<int64_t> steps{};  // batches; all of the data when unset
  // Called for each batch, on one replica of each process, before the evaluation_hooks of the
  // model.
  std::vector<std::shared_ptr<Hook>> hooks{};
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  std::string name{};  // events go to eval/ or eval_<name>/; must have no slash
  // Whether a model without a checkpoint may be evaluated, with freshly initialised variables.
  bool allow_untrained = false;
  // Whether to use the moving averages of the weights: see optim::exponential_moving_average().
  bool use_ema = false;
};

// Options of Estimator::predict().
struct PredictOptions {
  std::vector<std::string> predict_keys{};  // empty: all
  // Called for each batch, before the prediction_hooks of the model. They end with the predictions,
  // also when Predictions is destroyed earlier.
  std::vector<std::shared_ptr<Hook>> hooks{};
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  bool yield_single_examples = true;             // false: whole batches
  // Whether a model without a checkpoint may predict, with freshly initialised variables.
  bool allow_untrained = false;
  // Whether to use the moving averages of the weights: see optim::exponential_moving_average().
  bool use_ema = false;
  // Directory for the model function's summaries over all predicted batches, written when the
  // predictions end or are destroyed; empty: none.
  std::string summary_dir{};
};

// Options of Estimator::export_model().
struct ExportModelOptions {
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  // Whether to use the moving averages of the weights: see optim::exponential_moving_average().
  bool use_ema = false;
  // Formats in addition to TorchScript, if the program links muster::onnx: "onnx" adds model.onnx,
  // "saved_model" adds saved_model.pb and the folder variables.
  std::vector<std::string> formats{};
};

// Predictions, one example (or batch) at a time. The Estimator must outlive it.
class MUSTER_EXPORT Predictions {
 public:
  ~Predictions();
  Predictions(Predictions&&) noexcept;
  // Returns the next prediction; nothing at the end. Computes nothing before the first call. Throws
  // the errors of evaluate() for checkpoints; InvalidArgument when no predict_key exists, or when
  // outputs have different batch sizes.
  std::optional<Prediction> next();
  // The same, with the result in `*out`; false at the end.
  [[deprecated("next() gives an optional")]] bool next(Prediction* out) {
    std::optional<Prediction> prediction = next();
    if (prediction) *out = *std::move(prediction);
    return prediction.has_value();
  }

 private:
  friend class Estimator;
  struct Impl;
  explicit Predictions(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct EvalSpec;
struct TrainAndEvaluateResult;
struct TrainSpec;
class InMemoryEvaluator;

namespace internal {
struct EstimatorAccess;
}

class MUSTER_EXPORT Estimator {
 public:
  // Throws InvalidArgument for an invalid RunConfig. Opens and reads nothing.
  explicit Estimator(ModelFn model_fn, RunConfig config = {});
  // `params`: a JSON object that the model function reads from its context.
  Estimator(ModelFn model_fn, RunConfig config, const nlohmann::json& params);
  ~Estimator();
  Estimator(Estimator&&) noexcept;

  // Trains until `steps`, `max_steps`, the end of the input, or a hook's request. Continues from
  // the latest checkpoint, at the next example of the input. Without steps and max_steps: until the
  // input ends. If max_steps is already reached, does nothing. Throws the errors of muster::train;
  // InvalidArgument on an evaluator or parameter server; Cancelled, after saving, when this task is
  // asked to stop. Ctrl-C and SIGTERM request this if the program runs under run_main() or
  // guard_main() (muster/program/run_main.h). In other programs the signals end the process at
  // once, without saving, and an uncaught error aborts it.
  TrainResult train(const InputFn& input_fn, const TrainOptions& options = {});

  // Computes the metrics over `steps` batches, on the replicas of RunConfig::eval_distribute; the
  // results are the same for any of them (see muster/train/evaluator.h). The first call builds the
  // model and keeps it. A checkpoint is read again only if it is another one, or if the model
  // function has written to a variable. With multi_worker_mirrored() all tasks of the cluster make
  // this call; the chief reads the checkpoint, and all tasks get the result. The chief writes the
  // metrics for TensorBoard to eval_dir(name). A task of type evaluator evaluates alone, and writes
  // them as well. Throws InvalidArgument for steps < 1, an input without data, a checkpoint that
  // does not fit the model, and, with use_ema, a checkpoint without averages; NotFound when there
  // is not a checkpoint, unless allow_untrained is set; NotFound or Corrupt for a checkpoint_path
  // that is missing or damaged; Cancelled when this task is asked to stop; PeerLost, Timeout,
  // Unavailable when another task failed.
  EvalResult evaluate(const InputFn& input_fn, const EvaluateOptions& options = {});

  // Predicts for the input, which is read once, from its beginning; its labels are dropped. Without
  // a checkpoint the first next() throws NotFound, unless allow_untrained is set.
  Predictions predict(const InputFn& input_fn, const PredictOptions& options = {});

  // The config and params of this Estimator. Both are copies: changing the originals does not
  // change it.
  const RunConfig& config() const;
  const nlohmann::json& params() const;
  const ModelFn& model_fn() const;
  // The directory in use; a temporary one when none was given.
  const std::string& model_dir() const;
  // The directory for the metrics of an evaluation of that name: eval/, or eval_<name>/, in
  // model_dir().
  std::string eval_dir(const std::string& name = {}) const;
  // The cluster and this process's place in it, resolved once from the environment. Throws
  // InvalidArgument for an invalid TF_CONFIG.
  const cluster::ResolvedCluster& cluster() const;
  bool is_chief() const;
  // The prefix of the newest checkpoint; nothing if the model was not trained.
  std::optional<std::string> latest_checkpoint() const;
  // Returns the sorted names in the latest checkpoint: the model's variables, the slots of its
  // optimizers, and "global_step". An optimizer's own update counter ("Adam/iterations") is left
  // out, as in tf.estimator, where global_step is that counter. Throws NotFound if the model was
  // not trained.
  std::vector<std::string> get_variable_names() const;
  // Returns a value from the latest checkpoint; "global_step" is an int64 scalar. Update counters
  // of optimizers can be read as well. Throws NotFound if the model was not trained, or for an
  // unknown name.
  Tensor get_variable_value(const std::string& name) const;
  // Writes the variables of a checkpoint, by default the latest, to `path` as a state dict that
  // torch.load() and torch::pickle_load() read. muster/formats/torch_export.h describes its names
  // and layouts, which are returned. Optimizers are left out. Throws NotFound if the model was not
  // trained or there is no such checkpoint, Corrupt if it is damaged, and InvalidArgument if it
  // cannot be a state dict.
  std::vector<formats::TorchExported> export_torch(
      const std::string& path, const std::optional<std::string>& checkpoint_path = {}) const;
  // Exports the PREDICT branch of the model function with the weights of a checkpoint, to the
  // folder `<export_dir>/<unix seconds>`, and returns its path. The number is the current second,
  // or one more than the newest version in export_dir. muster/export/write_servable.h describes its
  // content, and Servable loads it. The folder is written under another name and then renamed, so
  // it is complete or absent. In a cluster the chief and an evaluator export; other tasks do
  // nothing and return nothing. `receiver` describes the features. Throws NotFound if the model was
  // not trained or there is no such checkpoint; InvalidArgument for export_outputs that are not
  // signatures (see EstimatorSpec::signatures()), for what cannot be exported ("not supported:
  // ..."), for a model whose results depend on the batch size, naming output and size, and, with
  // use_ema, for a checkpoint without averages.
  std::optional<std::string> export_model(const std::string& export_dir,
                                          const ServingInputReceiver& receiver,
                                          const ExportModelOptions& options = {});

 private:
  friend struct internal::EstimatorAccess;
  friend TrainAndEvaluateResult train_and_evaluate(Estimator& estimator,
                                                   const TrainSpec& train_spec,
                                                   const std::vector<EvalSpec>& eval_specs);
  friend class InMemoryEvaluator;
  friend class Predictor;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1
