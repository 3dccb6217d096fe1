// An Estimator trains, evaluates and predicts with a model function. Where it runs is the
// strategy's business. Thread safety: one thread.
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

// Options of Estimator::train(): when to end, and who is told.
struct TrainOptions {
  std::optional<int64_t> steps{};              // more steps from the latest checkpoint
  std::optional<int64_t> max_steps{};          // the global step to end at; at most one of the two
  std::vector<std::shared_ptr<Hook>> hooks{};  // on every worker
};

// Options of Estimator::evaluate(). As in PredictOptions, what tf.estimator has stands in its
// order, and the rest follows.
struct EvaluateOptions {
  std::optional<int64_t> steps{};  // batches; all of the data when unset
  // Told of each batch, on one replica of each process, before the evaluation_hooks of the model.
  std::vector<std::shared_ptr<Hook>> hooks{};
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  std::string name{};  // events go to eval/ or eval_<name>/; no slash may be in it
  // Whether a model without a checkpoint is evaluated too, with freshly initialised variables.
  bool allow_untrained = false;
  // Whether the weights are their moving averages: see optim::exponential_moving_average().
  bool use_ema = false;
};

// Options of Estimator::predict().
struct PredictOptions {
  std::vector<std::string> predict_keys{};  // empty: all
  // Told of each batch, before the prediction_hooks of the model. They end with the predictions,
  // also where these are let go before their end.
  std::vector<std::shared_ptr<Hook>> hooks{};
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  bool yield_single_examples = true;             // false: whole batches
  // Whether a model without a checkpoint predicts too, with freshly initialised variables.
  bool allow_untrained = false;
  // Whether the weights are their moving averages: see optim::exponential_moving_average().
  bool use_ema = false;
  // Where the model function's summaries go, over all batches that were predicted, when the
  // predictions end or are let go; empty: nowhere.
  std::string summary_dir{};
};

// Options of Estimator::export_model().
struct ExportModelOptions {
  std::optional<std::string> checkpoint_path{};  // the latest when unset
  // Whether the weights are their moving averages: see optim::exponential_moving_average().
  bool use_ema = false;
};

// Predictions, one example (or batch) at a time. The Estimator must outlive it.
class MUSTER_EXPORT Predictions {
 public:
  ~Predictions();
  Predictions(Predictions&&) noexcept;
  // Nothing is computed before the first call. Nothing at the end. Throws what evaluate() throws
  // for checkpoints; InvalidArgument when no predict_key exists, or batch sizes of outputs differ.
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
  // Throws InvalidArgument for a bad RunConfig. Opens and reads nothing.
  explicit Estimator(ModelFn model_fn, RunConfig config = {});
  // `params`: a JSON object the model function finds in its context.
  Estimator(ModelFn model_fn, RunConfig config, const nlohmann::json& params);
  ~Estimator();
  Estimator(Estimator&&) noexcept;

  // Trains until `steps`, `max_steps`, the end of the input, or a hook's request; continues from
  // the latest checkpoint, at the example it stopped at. Neither steps nor max_steps: until the
  // input ends. Where max_steps is reached already, nothing happens. Throws what muster::train
  // throws; InvalidArgument for an evaluator's or parameter server's task; Cancelled after saving,
  // when this task is asked to stop. Who asks is Ctrl-C or SIGTERM, in a program that began with
  // run_main() or guard_main() (muster/program/run_main.h): in another one they end it at once,
  // without saving, and an error that nobody catches is an abort.
  TrainResult train(const InputFn& input_fn, const TrainOptions& options = {});

  // Metrics over `steps` batches, on the replicas of RunConfig::eval_distribute: the same numbers
  // for any of them (see muster/train/evaluator.h). The model is built by the first call and kept;
  // a checkpoint is read again only when it is another one, or when the model function has written
  // to a variable. With multi_worker_mirrored() all tasks of the
  // cluster make this call; the chief reads the checkpoint, and all get the result. The chief
  // writes the metrics for TensorBoard to eval_dir(name). A task of type evaluator evaluates by
  // itself, and writes them as well. Throws InvalidArgument for steps < 1, an
  // input without data, a checkpoint that does not fit the model, and with use_ema one that holds
  // no averages; NotFound when there is no
  // checkpoint, unless allow_untrained is set; NotFound and Corrupt for a checkpoint_path that is
  // missing or damaged; Cancelled when this task is asked to stop; PeerLost, Timeout, Unavailable
  // when another task failed.
  EvalResult evaluate(const InputFn& input_fn, const EvaluateOptions& options = {});

  // The input is read once, from its beginning. Labels it gives are dropped. Without a checkpoint
  // the first next() throws NotFound, unless allow_untrained is set.
  Predictions predict(const InputFn& input_fn, const PredictOptions& options = {});

  // What it was made with. Both are values of its own: a change of the config or the params that
  // were passed, or of copies of these, does not change it.
  const RunConfig& config() const;
  const nlohmann::json& params() const;
  const ModelFn& model_fn() const;
  // The directory in force; the temporary one when none was given.
  const std::string& model_dir() const;
  // Where metrics of an evaluation of that name go: eval/, or eval_<name>/, in model_dir().
  std::string eval_dir(const std::string& name = {}) const;
  // Who this process is. Resolved once, from the environment. Throws InvalidArgument for a bad
  // TF_CONFIG.
  const cluster::ResolvedCluster& cluster() const;
  bool is_chief() const;
  // Prefix of the newest checkpoint; nothing when the model was not trained.
  std::optional<std::string> latest_checkpoint() const;
  // Of the latest checkpoint, sorted: the model's variables, the slots of its optimizers, and
  // "global_step". An optimizer's own counter of updates ("Adam/iterations") is left out, as in
  // tf.estimator, where global_step takes its place. Throws NotFound when the model was not
  // trained.
  std::vector<std::string> get_variable_names() const;
  // Of the latest checkpoint; "global_step" is an int64 scalar. Counters of optimizers can be read
  // as well. Throws NotFound when the model was not trained, or there is no such variable.
  Tensor get_variable_value(const std::string& name) const;
  // Writes the variables of a checkpoint, of the latest when `checkpoint_path` is unset, to `path`
  // as a state dict that torch.load() and torch::pickle_load() read: under the names and in the
  // layouts that muster/formats/torch_export.h tells, which are returned. Optimizers are left out.
  // Throws NotFound when the model was not trained or there is no such checkpoint, Corrupt when it
  // is damaged, and InvalidArgument when it cannot be a state dict.
  std::vector<formats::TorchExported> export_torch(
      const std::string& path, const std::optional<std::string>& checkpoint_path = {}) const;
  // Exports the PREDICT branch of the model function with the weights of a checkpoint, as the
  // folder `<export_dir>/<unix seconds>`, whose path is returned: the second it was made in, or
  // one more than the newest version there. muster/export/write_servable.h tells what is in it, and
  // Servable loads it. The folder is made aside and then renamed, so it is whole or absent. Of all
  // tasks of a cluster the chief and an evaluator export; others do nothing, and get nothing.
  // `receiver` describes the features. Throws NotFound where the model was not trained or there is
  // no such checkpoint; InvalidArgument for export_outputs that are no signatures (see
  // EstimatorSpec::signatures()), for what cannot be exported ("not supported: ..."), for a model
  // that computes something else at another batch size, naming output and size, and with use_ema
  // for a checkpoint without averages.
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
