// A step of LinearSDCA inside of a model function. Thread safety: an immutable value; calls are
// safe from several threads with different contexts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/canned/internal/sdca_rule.h"
#include "muster/canned/linear_sdca.h"
#include "muster/features/linear_model.h"
#include "muster/features/weight_column.h"
#include "muster/optim/train_op.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

struct SdcaPartOptions {
  SdcaLoss loss = SdcaLoss::kSquared;
  WeightColumn weight_column{};
  std::vector<std::string> label_vocabulary{};
};

class SdcaPart {
 public:
  // Throws InvalidArgument, which begins with `estimator`, for options that are not as LinearSDCA
  // says.
  SdcaPart(std::string estimator, LinearSDCA sdca, SdcaPartOptions options);

  // Computes the step of this batch; the result changes the weights of `model`, whose variables
  // begin with `scope`. The head has checked labels and weights. Throws InvalidArgument, which
  // begins with the estimator, for ids of examples that are missing or of another kind, for labels
  // of a classifier that are not 0 or 1, and for more examples than the table can hold.
  optim::TrainOp train_op(const Features& features, const Labels& labels, const LinearModel& model,
                          const std::string& scope, ModelContext& context) const;

 private:
  std::vector<uint64_t> keys_of(const Features& features) const;
  std::vector<double> labels_of(const Labels& labels) const;

  std::string estimator_;
  LinearSDCA sdca_;
  SdcaPartOptions options_;
};

}  // namespace muster::inline v0_1::internal
