// Answers requests with a trained model in memory. predict() builds and loads a model for each
// call; a Predictor does so once.
//
//   Predictor predictor(estimator);                            // the newest checkpoint
//   auto outputs = predictor.predict({{"x", x}});              // one example
//   while (serving) { …; predictor.reload(); }                 // a newer one, when there is one
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/tensor/element.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class Estimator;

// Options of a Predictor of an Estimator.
struct PredictorOptions {
  std::optional<std::string> checkpoint_path{};  // the latest when unset; if set, reload() keeps it
  // Whether to use the moving averages of the weights: see optim::exponential_moving_average().
  bool use_ema = false;
};

// Options of a Predictor of exported models.
struct ExportedPredictorOptions {
  std::string signature = "serving_default";
  FileSystem* fs = nullptr;  // nullptr: by the path; otherwise it must outlive the Predictor
};

// Thread safety: all members may be called from several threads at once. With exported models the
// threads compute in parallel. An Estimator's model function runs for one request at a time,
// because its context is for one thread.
class MUSTER_EXPORT Predictor {
 public:
  // Features or outputs by name.
  using Tensors = std::map<std::string, Tensor>;

  // Predicts with the model function and a checkpoint of `estimator`, on the CPU. The estimator
  // need not outlive the Predictor; objects captured by the model function must. Throws NotFound if
  // the model was not trained or there is no such checkpoint, and Corrupt if it is damaged.
  explicit Predictor(Estimator& estimator, const PredictorOptions& options = {});
  // Predicts with an export of export_model(): the folder of one version, or a folder of versions,
  // of which it uses the newest. Throws the errors of Servable; NotFound without a version, and
  // InvalidArgument for an unknown signature.
  explicit Predictor(const std::string& export_dir, const ExportedPredictorOptions& options = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;

  // Answers one example: features and outputs have no batch axis. Throws InvalidArgument for
  // features that the model cannot take; for an Estimator, the first call also throws it for a
  // checkpoint that does not fit the model.
  Tensors predict(const Tensors& features) const;
  // Answers a batch: axis 0 of features and outputs is that of the examples.
  Tensors predict_batch(const Tensors& features) const;
  // The same for a batch with strings, as a dict: the features of the model function, or, for an
  // export, the argument of Servable::run_features().
  Tensors predict_features(const Element& batch) const;

  // Switches to the newest checkpoint or version if it is not the current one; returns whether it
  // did. Requests get answers from the old one until the new one is loaded, and none fails. Throws
  // the errors of the constructor; the old one then stays in use.
  bool reload();
  // Returns the current model: the prefix of a checkpoint, or the folder of a version.
  std::string source() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1
