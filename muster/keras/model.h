// A Model trains, evaluates and predicts with layers and the settings of compile(), like Keras's.
// Its weights are in memory; the strategy decides where it runs.
//
//   keras::Model model(Sequential({Dense(128, {.activation = activations::relu}), Dense(10)}));
//   model.compile({.optimizer = "adam",
//                  .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
//                  .metrics = {"accuracy"}});
//   const keras::History history = model.fit(train.batch(64), {.epochs = 5});
//   const keras::Logs result = model.evaluate(test.batch(256));  // {"accuracy": …, "loss": …}
//
// A model made in the scope of a strategy trains on its replicas: batch(n) of a data set then means
// n examples over all of them. On a cluster every worker must make the same calls. With
// distribute::parameter_server() servers make them too; all tasks meet in fit(), and only the chief
// gets its results.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/formats/graph_def.h"
#include "muster/keras/callback.h"
#include "muster/keras/compile_options.h"
#include "muster/keras/history.h"
#include "muster/keras/progbar_logger.h"
#include "muster/layers/functional.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1::keras {

namespace internal {
struct ModelAccess;
}

// Options of a Model.
struct ModelOptions {
  std::string name = "model";
  // Where it trains; unset: the strategy whose scope this thread is in, else one_device().
  distribute::StrategyPtr strategy = nullptr;
  uint64_t seed = 0;  // for initial values, shuffles and random numbers of layers
  // The inputs, made by Input(), of a layer that is not a Functional; the weights then exist before
  // the first batch. Else build() or the first batch defines them.
  std::vector<SymbolicTensor> inputs = {};
  // The output names of a layer that is not a Functional; default "output_1", "output_2", ...
  std::vector<std::string> output_names = {};
  // The environment that holds TF_CONFIG; default: that of the process.
  std::optional<Environment> environment = {};
};

// Options of Model::fit().
struct FitOptions {
  int64_t epochs = 1;  // the number of the last epoch, as in Keras: see initial_epoch
  // --- for tensors, fit(x, y, ...); a data set defines these itself, so fit() throws
  // InvalidArgument if they are set for one ---
  int64_t batch_size = 32;      // over all replicas
  bool shuffle = true;          // before each epoch
  Tensor sample_weight = {};    // [examples]
  double validation_split = 0;  // this fraction of the examples, from the end, is used for
                                // validation
  // --- for tensors and data sets ---
  int64_t initial_epoch = 0;  // the first epoch to train
  // For data without end, or to make shorter epochs: the next epoch continues in the data. Unset:
  // an epoch is a pass over the data.
  std::optional<int64_t> steps_per_epoch = {};
  std::optional<Dataset> validation_data = {};
  std::optional<int64_t> validation_steps = {};  // batches; all of the data when unset
  int64_t validation_freq = 1;                   // validate after every this many epochs
  // The weight of each class, by its number; labels are class numbers, or one-hot.
  std::vector<double> class_weight = {};
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  Verbose verbose = Verbose::kAuto;  // of the ProgbarLogger, unless one is among these
};
using FitTensorOptions = FitOptions;  // its former name, for fit(x, y, ...)

// Options of Model::evaluate() and Model::predict().
struct EvaluateOptions {
  std::optional<int64_t> steps = {};  // batches; all of the data when unset
  std::vector<std::shared_ptr<Callback>> callbacks = {};
};
using PredictOptions = EvaluateOptions;

// Options of Model::load_weights().
struct LoadWeightsOptions {
  // Whether to keep weights that are only in the model, ignore those only in the file, and report
  // both.
  bool by_name = false;
  // With by_name: whether to keep weights of another shape as well.
  bool skip_mismatch = false;
};

// What Model::load_weights() did, by name.
struct LoadedWeights {
  std::vector<std::string> loaded{};
  std::vector<std::string> missing{};  // not in the file
  std::vector<std::string> unused{};   // not in the model
  std::vector<std::string>
      mismatched{};  // "dense/kernel: float32[3, 4], the file has float32[3, 5]"
};

class MUSTER_EXPORT Model {
 public:
  // Your own model function: it computes outputs from the features of a batch. The layers it calls
  // find their variables in the context; make the layers once, outside of the function.
  using Function = std::function<LayerOutputs(const Features& features, CallContext& context)>;

  // Makes a model of a Sequential, a Functional, or any layer. A Functional of several inputs takes
  // features by the names of its Inputs, or a tuple of tensors in their order; another layer takes
  // one tensor.
  explicit Model(Layer layer, ModelOptions options = {});
  // Makes a model of a function.
  explicit Model(Function function, ModelOptions options = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Sets how it trains. A second call resets the slots of the optimizer, and keeps the weights.
  // Throws InvalidArgument for an unknown output, and the errors of the options' parts.
  void compile(const CompileOptions& options);
  bool compiled() const;

  // Trains. `data` has elements (features, labels) or (features, labels, sample_weight) in batches
  // over all replicas; without labels the loss gets undefined ones. Returns the History. Ctrl-C and
  // SIGTERM end it after a step, on all workers; with a BackupAndRestore the same command continues
  // at the next example. On a cluster it adds one itself if the program has a directory of its job:
  // see BackupAndRestore. Throws InvalidArgument when compile() was not called, and for data that
  // does not fit; the errors of Strategy::run(); Cancelled when it is stopped.
  //
  // On a cluster with parameter servers the chief schedules the steps and the workers run them. An
  // epoch counts the steps of all workers together, each on n examples of the worker's part of the
  // data, which begins again when it ends. On the chief, callbacks get each step in the order of
  // scheduling, while other steps run; it evaluates, and has weights and History afterwards. On
  // workers and servers fit() returns an empty History when the run is over, or throws the error
  // that ended it; all calls there that need weights do nothing and return empty results. It can be
  // called once. There it throws InvalidArgument for what servers do not support (accumulate_steps,
  // ReduceLROnPlateau, LearningRateScheduler, a second fit()), and the errors of
  // ClusterCoordinator.
  History fit(const Dataset& data, const FitOptions& options = {});
  // The same with tensors, or dicts and tuples of them, with the examples along axis 0.
  //   model.fit(x, y, {.epochs = 5, .batch_size = 32});
  History fit(const Element& features, const Element& labels, const FitOptions& options = {});

  // Returns losses and metrics over the data, of all replicas together; with parameter servers the
  // chief computes them. Throws as fit() does, and InvalidArgument without data.
  Logs evaluate(const Dataset& data, const EvaluateOptions& options = {});
  Logs evaluate(const Element& features, const Element& labels, int64_t batch_size = 32);

  // Returns the outputs for all examples, in order. Every process computes all of them, except
  // workers and servers of a cluster with parameter servers, which get an undefined tensor. For a
  // model of several outputs use predict_outputs(). Labels of the data are ignored.
  Tensor predict(const Dataset& data, const PredictOptions& options = {});
  Tensor predict(const Element& features, int64_t batch_size = 32);
  // The same, by the names of the outputs.
  std::map<std::string, Tensor> predict_outputs(const Dataset& data,
                                                const PredictOptions& options = {});

  // Trains on one batch, for loops of your own; evaluation and prediction follow. The rows are
  // divided between the replicas of this process; on a cluster each worker has its own rows. Logs
  // are those of this batch over all replicas. Throws InvalidArgument on a cluster with parameter
  // servers: use a ClusterCoordinator there.
  Logs train_on_batch(const Element& features, const Element& labels,
                      const Tensor& sample_weight = {},
                      const std::vector<double>& class_weight = {});
  // Evaluates one batch.
  Logs test_on_batch(const Element& features, const Element& labels,
                     const Tensor& sample_weight = {});
  // Predicts one batch.
  Tensor predict_on_batch(const Element& features);

  // Creates the weights of a model whose inputs are not known yet: float32 features of this shape,
  // without the batch. If they are known, leave out the shape.
  void build(const Shape& shape = {});
  bool built() const;
  // Returns Keras's table of layers. Throws InvalidArgument if the inputs are not known.
  std::string summary() const;
  // The same for TensorBoard's graph page; nothing if the inputs are not known.
  std::optional<formats::GraphDef> graph() const;
  int64_t count_params();

  // Returns weights by name, in the order of their creation, including statistics that do not
  // train. Throws InvalidArgument before the model is built.
  std::vector<std::pair<std::string, Tensor>> get_weights();
  // Sets weights to these values; on a cluster every worker calls it, and the chief's values are
  // used. Throws InvalidArgument for an unknown name, for values of another shape, and during a
  // fit() on parameter servers.
  void set_weights(const std::map<std::string, Tensor>& weights);
  // Writes the weights as a .safetensors file; on a cluster every worker calls it, and the chief
  // writes.
  void save_weights(const std::string& path);
  // Reads weights from a .safetensors file, a checkpoint's prefix or a model_dir; in a program that
  // links muster::kerasfiles, from a .h5, .weights.h5 or .keras file of Keras too. Throws NotFound,
  // Corrupt, and InvalidArgument with everything that does not fit and the nearest names; with
  // by_name only for other shapes.
  LoadedWeights load_weights(const std::string& path, const LoadWeightsOptions& options = {});
  // Saves weights, slots of the optimizer and the number of steps in the folder `path`. load() of a
  // model made by the same code continues from it. The code itself is not saved. A path that ends
  // in .onnx or saved_model.pb is a file instead: the exported model as ONNX or as a SavedModel of
  // TensorFlow, which load() does not read; the program links muster::onnx, and the errors are
  // those of export_model().
  void save(const std::string& path);
  void load(const std::string& path);
  // Exports the computation of predict() as a model that Servable, `muster serve` and PyTorch load,
  // to `directory`/<unix seconds>, and returns that path; other tasks than the chief return "". See
  // Estimator::export_model(). `formats` are those of ExportModelOptions: "onnx" adds model.onnx,
  // "saved_model" adds saved_model.pb and the folder variables.
  std::string export_model(const std::string& directory,
                           const std::vector<std::string>& formats = {});

  // Freezes layers whose names match one of these regular expressions, from the next fit() or
  // train_on_batch() on: their variables do not change, and batch normalization in them uses its
  // moving statistics. Replaces the patterns of the last call; {} unfreezes all. Throws
  // InvalidArgument if no layer matches; for a model without weights the first step of fit() throws
  // it.
  void freeze(const std::vector<std::string>& layers);
  std::vector<std::string> trainable_weights();

  // The learning rate of the next step. Setting it throws InvalidArgument if the optimizer has a
  // schedule, and during a fit() on parameter servers. Before fit(), all tasks must set the same;
  // for workers in step fit() throws InvalidArgument after an epoch in which rates differ.
  double learning_rate() const;
  void set_learning_rate(double rate);
  // Returns the number of updates so far.
  int64_t step() const;

  // Ends fit() after this epoch, or, if the model trains in one process, after this batch.
  void stop_training();
  // Whether this process is the chief; true without a cluster.
  bool is_chief();
  const std::string& name() const;
  // The names of the features in a batch, and of the outputs; empty if the layer does not define
  // them.
  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;
  const CompileOptions& compile_options() const;
  const distribute::StrategyPtr& strategy() const;

  struct Impl;

 private:
  friend struct internal::ModelAccess;

  History fit_batches(const Dataset& data, const FitOptions& options);

  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::keras
