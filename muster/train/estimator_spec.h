// The result of a model function: it says what a batch means for training, evaluation and
// prediction. Thread safety: a value.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/export/export_output.h"
#include "muster/losses/reduction.h"
#include "muster/metrics/metric.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/features.h"
#include "muster/tensor/mode.h"

namespace muster::inline v0_1 {

class Hook;
class ModelContext;

// The result of a model function: all that training, evaluation or prediction needs of one batch.
struct MUSTER_EXPORT EstimatorSpec {
  // The loss, a scalar (one element is reshaped to a scalar); training and evaluation need it. It
  // is the loss of the data: the penalties of regularizers are added automatically.
  Tensor loss{};
  optim::TrainOp train_op{};  // training needs it
  std::map<std::string, Metric>
      eval_metrics{};  // of this batch; the names "loss" and "global_step" are reserved
  // Metrics of this batch for progress lines and TensorBoard: read every log_step_count_steps and
  // merged over replicas, which must all return the same names.
  std::map<std::string, Metric> train_metrics{};
  std::map<std::string, Tensor> predictions{};  // axis 0 is the batch; prediction needs it
  // The signatures of an exported model; see signatures().
  std::map<std::string, ExportOutput> export_outputs{};
  // How to combine the losses of batches and replicas: kMean weights them by `loss_weight`, kSum
  // adds.
  ReduceOp loss_reduction = ReduceOp::kMean;
  std::optional<double> loss_weight{};                        // the batch's rows when unset
  std::vector<std::shared_ptr<Hook>> training_hooks{};        // on every worker
  std::vector<std::shared_ptr<Hook>> training_chief_hooks{};  // on the chief only
  // For Mode::kEval and Mode::kPredict, on each process that calls the model function. The hooks of
  // the first call of a mode, which builds the model, are used.
  std::vector<std::shared_ptr<Hook>> evaluation_hooks{};
  std::vector<std::shared_ptr<Hook>> prediction_hooks{};

  // Makes the result for one mode, with the fields it needs.
  static EstimatorSpec train(Tensor loss, optim::TrainOp train_op,
                             std::map<std::string, Metric> metrics = {});
  // For Mode::kEval; `metrics` are eval_metrics.
  static EstimatorSpec eval(Tensor loss, std::map<std::string, Metric> metrics = {});
  // For Mode::kPredict.
  static EstimatorSpec predict(std::map<std::string, Tensor> predictions,
                               std::map<std::string, ExportOutput> export_outputs = {});
  // A single tensor, named "output".
  static EstimatorSpec predict(Tensor output);

  // Throws InvalidArgument with the field that `mode` needs and that is missing or has the wrong
  // form. Fields of other modes are ignored, so one spec may serve all modes. A one-element loss
  // becomes a scalar.
  void validate(Mode mode);
  // Returns the signatures of an exported model, including kServingDefault. Without export_outputs
  // the default is the predictions; with a single entry it is that entry, which also keeps its own
  // name. Throws InvalidArgument for several entries without a default, for an entry without
  // outputs, and for a missing tensor, with the entry's name.
  std::map<std::string, ExportOutput> signatures() const;
};

// Called for every batch on every replica. See ModelContext.
using ModelFn = std::function<EstimatorSpec(const Features&, const Labels&, Mode, ModelContext&)>;

}  // namespace muster::inline v0_1
