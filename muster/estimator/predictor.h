// Answers requests with a trained model that stays in memory: where predict() builds and loads a
// model for each call, a Predictor has done so once.
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
  std::optional<std::string> checkpoint_path{};  // the latest when unset; reload() keeps to it
  // Whether the weights are their moving averages: see optim::exponential_moving_average().
  bool use_ema = false;
};

// Options of a Predictor of exported models.
struct ExportedPredictorOptions {
  std::string signature = "serving_default";
  FileSystem* fs = nullptr;  // nullptr: that of the path; otherwise it must outlive the Predictor
};

// Thread safety: all members may be called from several threads at once. With exported models the
// threads compute side by side; the model function of an Estimator is called for one request at a
// time, as its context is for one thread.
class MUSTER_EXPORT Predictor {
 public:
  // Features or outputs by name.
  using Tensors = std::map<std::string, Tensor>;

  // Predicts with the model function and a checkpoint of `estimator`, which need not outlive the
  // Predictor; what the model function captured must. On the CPU. Throws NotFound where the model
  // was not trained or there is no such checkpoint, and Corrupt where it is damaged.
  explicit Predictor(Estimator& estimator, const PredictorOptions& options = {});
  // Predicts with what export_model() wrote: the folder of one version, or one with several, of
  // which the newest is taken. Throws what Servable throws; NotFound where there is no version, and
  // InvalidArgument where the signature is not there.
  explicit Predictor(const std::string& export_dir, const ExportedPredictorOptions& options = {});
  ~Predictor();
  Predictor(Predictor&&) noexcept;

  // Answers one example: features without the axis of the batch, and outputs without it. Throws
  // InvalidArgument for features the model cannot take; the first call for an Estimator also for a
  // checkpoint that does not fit the model.
  Tensors predict(const Tensors& features) const;
  // Answers a batch: axis 0 of features and outputs is that of the examples.
  Tensors predict_batch(const Tensors& features) const;
  // The same for a batch with texts, a dict: what the model function finds in its features; of an
  // export, what Servable::run_features() takes.
  Tensors predict_features(const Element& batch) const;

  // Takes the newest checkpoint, or version, up where it is another one than the one in use, and
  // returns whether it did. It is loaded aside: requests are answered with the old one meanwhile,
  // and none is lost. Throws what the constructor throws; the old one stays in use then.
  bool reload();
  // Which one is in use: the prefix of a checkpoint, or the folder of a version.
  std::string source() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1
