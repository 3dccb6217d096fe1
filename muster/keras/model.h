// A Model trains, evaluates and predicts with layers and what compile() says, as Keras's does. Its
// weights are in memory; where it runs is the strategy's business.
//
//   keras::Model model(Sequential({Dense(128, {.activation = activations::relu}), Dense(10)}));
//   model.compile({.optimizer = "adam",
//                  .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
//                  .metrics = {"accuracy"}});
//   const keras::History history = model.fit(train.batch(64), {.epochs = 5});
//   const keras::Logs result = model.evaluate(test.batch(256));  // {"accuracy": …, "loss": …}
//
// A model made in the scope of a strategy trains over its replicas: batch(n) of a data set then
// means n examples over all of them. On a cluster every worker makes the same calls; with
// distribute::parameter_server() servers make them too, fit() is where they meet, and the chief
// alone has what comes out.
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
  // Where it trains; when it is not set, the strategy whose scope the thread is in, else
  // one_device().
  distribute::StrategyPtr strategy = nullptr;
  uint64_t seed = 0;  // of initial values, shuffles and what layers draw
  // What the model is called on, as Input() gives it, where the layer is no Functional: then its
  // weights are there before the first batch. Else build() or the first batch tells.
  std::vector<SymbolicTensor> inputs = {};
  // Names of the outputs of a layer that is no Functional; else "output_1", "output_2", ...
  std::vector<std::string> output_names = {};
  // Where TF_CONFIG is read from; the process's own environment when not set.
  std::optional<Environment> environment = {};
};

// Options of Model::fit().
struct FitOptions {
  int64_t epochs = 1;  // the number of the last one, as in Keras: see initial_epoch
  // --- of tensors, fit(x, y, ...); a data set says these itself, and InvalidArgument is thrown
  // where they are set beside one ---
  int64_t batch_size = 32;      // over all replicas
  bool shuffle = true;          // before each epoch
  Tensor sample_weight = {};    // [examples]
  double validation_split = 0;  // this part of the examples, the last ones, is for validation
  // --- of both ---
  int64_t initial_epoch = 0;  // the first that is trained
  // Of data without end, or to make epochs of a part of it: the next epoch goes on behind it.
  // Unset: an epoch is a pass over the data.
  std::optional<int64_t> steps_per_epoch = {};
  std::optional<Dataset> validation_data = {};
  std::optional<int64_t> validation_steps = {};  // batches; all of the data when unset
  int64_t validation_freq = 1;                   // behind every so many epochs
  // The weight of each class, by its number; labels are numbers of classes, or one-hot.
  std::vector<double> class_weight = {};
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  Verbose verbose = Verbose::kAuto;  // of the ProgbarLogger, where there is none among these
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
  // Whether weights that are in one of the two alone are left as they are, and told.
  bool by_name = false;
  // With by_name: whether those of other shapes are left as well.
  bool skip_mismatch = false;
};

// What Model::load_weights() did, by name.
struct LoadedWeights {
  std::vector<std::string> loaded{};
  std::vector<std::string> missing{};  // the file has none
  std::vector<std::string> unused{};   // the model has none
  std::vector<std::string>
      mismatched{};  // "dense/kernel: float32[3, 4], the file has float32[3, 5]"
};

class MUSTER_EXPORT Model {
 public:
  // What a model of one's own computes: its outputs of the features of a batch. Layers it calls
  // find their variables in the context; make them once, outside.
  using Function = std::function<LayerOutputs(const Features& features, CallContext& context)>;

  // Of a Sequential, a Functional, or any layer. A Functional of several inputs takes features by
  // the names of its Inputs, or a tuple of tensors in their order; another layer takes one tensor.
  explicit Model(Layer layer, ModelOptions options = {});
  // Of a function.
  explicit Model(Function function, ModelOptions options = {});
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  // Says how it trains. A second call begins with new slots of the optimizer, and keeps the
  // weights. Throws InvalidArgument for an output that is not there, and what the options' parts
  // throw.
  void compile(const CompileOptions& options);
  bool compiled() const;

  // Trains. `data` gives (features, labels) or (features, labels, sample_weight) in batches over
  // all replicas; without labels the loss is given undefined ones. Returns what was measured.
  // Ctrl-C and SIGTERM end it behind a step, on all workers; with a BackupAndRestore the same
  // command goes on at the next example. On a cluster there is one by itself where the program has
  // a directory of its job: see BackupAndRestore. Throws InvalidArgument when compile() was not
  // called, and for data that does not fit; what Strategy::run() throws; Cancelled when it is
  // stopped.
  //
  // On a cluster with parameter servers the chief schedules the steps and the workers make them: so
  // many as epochs say are those of all together, each on n examples of the worker's part of the
  // data, which begins anew when it is used up. On the chief callbacks hear of each step in the
  // order in which they were scheduled, while others are under way, it evaluates, and it has
  // weights and History behind it. In workers and servers fit() returns an empty History when the
  // run is over, or throws what ended it; all calls there that need weights do nothing and give
  // what is empty. It can be called once, throws InvalidArgument there for what servers cannot do
  // (accumulate_steps, ReduceLROnPlateau, LearningRateScheduler, a second fit()), and what
  // ClusterCoordinator throws.
  History fit(const Dataset& data, const FitOptions& options = {});
  // The same with tensors, or dicts and tuples of them, whose axis 0 has the examples.
  //   model.fit(x, y, {.epochs = 5, .batch_size = 32});
  History fit(const Element& features, const Element& labels, const FitOptions& options = {});

  // Losses and metrics over the data, those of all replicas together; with parameter servers the
  // chief computes them. Throws as fit() does, and InvalidArgument for no data.
  Logs evaluate(const Dataset& data, const EvaluateOptions& options = {});
  Logs evaluate(const Element& features, const Element& labels, int64_t batch_size = 32);

  // The outputs for all examples, in their order; every process computes them all, but for workers
  // and servers of a cluster with parameter servers, where the tensor is undefined. A model of
  // several outputs gives them by predict_outputs(). Labels of the data are left out.
  Tensor predict(const Dataset& data, const PredictOptions& options = {});
  Tensor predict(const Element& features, int64_t batch_size = 32);
  // The same by the names of the outputs.
  std::map<std::string, Tensor> predict_outputs(const Dataset& data,
                                                const PredictOptions& options = {});

  // One step of one batch, one evaluation, one prediction; for loops of one's own. The rows are
  // divided between the replicas of this process; on a cluster each worker brings its own. Logs are
  // those of this batch over all replicas. Throws InvalidArgument on a cluster with parameter
  // servers, where a ClusterCoordinator does this.
  Logs train_on_batch(const Element& features, const Element& labels,
                      const Tensor& sample_weight = {},
                      const std::vector<double>& class_weight = {});
  // Evaluates one batch.
  Logs test_on_batch(const Element& features, const Element& labels,
                     const Tensor& sample_weight = {});
  // Predicts one batch.
  Tensor predict_on_batch(const Element& features);

  // Makes the weights of a model whose inputs are not known yet: float32 features of this shape,
  // without the batch. Where they are known, the shape may be left out.
  void build(const Shape& shape = {});
  bool built() const;
  // Keras's table of layers. Throws InvalidArgument where inputs are not known.
  std::string summary() const;
  // The same for TensorBoard's graph page; nothing where inputs are not known.
  std::optional<formats::GraphDef> graph() const;
  int64_t count_params();

  // Weights by name, in the order in which they were made; statistics that do not train are among
  // them. Throws InvalidArgument before the model is built.
  std::vector<std::pair<std::string, Tensor>> get_weights();
  // Gives weights these values; on a cluster every worker calls it, and the values of the chief
  // count. Throws InvalidArgument for a name that is not there, for values of another shape, and
  // in the middle of a fit() on parameter servers.
  void set_weights(const std::map<std::string, Tensor>& weights);
  // Writes the weights as a .safetensors file; on a cluster every worker calls it, and the chief
  // writes.
  void save_weights(const std::string& path);
  // Reads them from a .safetensors file, a checkpoint's prefix or a model_dir; in a program that
  // links muster::kerasfiles, from a .h5, .weights.h5 or .keras of Keras too. Throws NotFound,
  // Corrupt, and InvalidArgument that lists what does not fit with the nearest names: all of it,
  // or with by_name what has another shape.
  LoadedWeights load_weights(const std::string& path, const LoadWeightsOptions& options = {});
  // Weights, slots of the optimizer and the number of steps, as the folder `path`: what load() of
  // a model that the same code makes goes on with. The code itself is not saved.
  void save(const std::string& path);
  void load(const std::string& path);
  // Writes what predict() computes as a model that Servable, `muster serve` and PyTorch load, into
  // `directory`/<unix seconds>, which is returned; "" but on the chief. See
  // Estimator::export_model().
  std::string export_model(const std::string& directory);

  // Layers whose names match one of these regular expressions do not train, from the next fit() or
  // train_on_batch() on: their variables stay, and batch normalization in them uses its moving
  // statistics. They replace those of the last call; {} lets all train. Throws InvalidArgument
  // where no layer has such a name; of a model without weights, the first step of fit() does.
  void freeze(const std::vector<std::string>& layers);
  std::vector<std::string> trainable_weights();

  // The learning rate of the next step. Setting it throws InvalidArgument where the optimizer has a
  // schedule, and in the middle of a fit() on parameter servers; before, all tasks set it. So do
  // workers in step: fit() throws InvalidArgument behind an epoch where theirs differ.
  double learning_rate() const;
  void set_learning_rate(double rate);
  // Updates so far.
  int64_t step() const;

  // fit() ends behind this epoch, and where the model trains in one process, behind this batch.
  void stop_training();
  // Whether this process speaks for its cluster; true without one.
  bool is_chief();
  const std::string& name() const;
  // Of the features a batch holds, and of what it gives; empty where the layer does not say.
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
