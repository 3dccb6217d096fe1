// What a model function returns: the one record that says what a batch means for training,
// evaluation and prediction. Thread safety: a value.
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

// What a model function returns: all that training, evaluation or prediction needs of one batch.
struct MUSTER_EXPORT EstimatorSpec {
  // Scalar (one element is reshaped to it); train and eval need it. It is that of the data: the
  // penalties of regularizers join it by themselves.
  Tensor loss{};
  optim::TrainOp train_op{};  // train needs it
  std::map<std::string, Metric>
      eval_metrics{};  // of this batch; names "loss" and "global_step" are taken
  // Of this batch, for progress lines and TensorBoard: read every log_step_count_steps, merged over
  // replicas, which must all return the same names.
  std::map<std::string, Metric> train_metrics{};
  std::map<std::string, Tensor> predictions{};  // axis 0 is the batch; predict needs it
  // The signatures of an exported model; see signatures().
  std::map<std::string, ExportOutput> export_outputs{};
  // How losses of batches and replicas become one: kMean weighs them by `loss_weight`, kSum adds.
  ReduceOp loss_reduction = ReduceOp::kMean;
  std::optional<double> loss_weight{};                        // the batch's rows when unset
  std::vector<std::shared_ptr<Hook>> training_hooks{};        // on every worker
  std::vector<std::shared_ptr<Hook>> training_chief_hooks{};  // on the chief only
  // Of Mode::kEval and Mode::kPredict, on each process that calls the model function. Of hooks
  // those count that the first call of a mode gives: the one that builds the model.
  std::vector<std::shared_ptr<Hook>> evaluation_hooks{};
  std::vector<std::shared_ptr<Hook>> prediction_hooks{};

  // The record for one mode, with the fields it needs.
  static EstimatorSpec train(Tensor loss, optim::TrainOp train_op,
                             std::map<std::string, Metric> metrics = {});
  // For Mode::kEval; `metrics` are eval_metrics.
  static EstimatorSpec eval(Tensor loss, std::map<std::string, Metric> metrics = {});
  // For Mode::kPredict.
  static EstimatorSpec predict(std::map<std::string, Tensor> predictions,
                               std::map<std::string, ExportOutput> export_outputs = {});
  // One tensor, called "output".
  static EstimatorSpec predict(Tensor output);

  // Throws InvalidArgument naming the field that `mode` needs and this record lacks, or that has
  // the wrong form. Fields of other modes are ignored, so one record may fill all. A one-element
  // loss becomes a scalar.
  void validate(Mode mode);
  // What an exported model offers, by signature, kServingDefault among them: that is the
  // predictions where export_outputs is empty, and its one entry, which stays under its own name
  // too, where there is one. Throws InvalidArgument where there are several and none is the
  // default, for one without outputs, and naming one whose tensor is not there.
  std::map<std::string, ExportOutput> signatures() const;
};

// Called for every batch on every replica. See ModelContext.
using ModelFn = std::function<EstimatorSpec(const Features&, const Labels&, Mode, ModelContext&)>;

}  // namespace muster::inline v0_1
