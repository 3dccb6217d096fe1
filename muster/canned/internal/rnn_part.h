// The recurrent network inside of canned estimators: RNN*.
// Thread safety: an immutable value; calls are safe from several threads with different contexts.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/features/dense_features.h"
#include "muster/features/sequence_features.h"
#include "muster/layers/layer.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

struct RnnPartOptions {
  std::vector<FeatureColumn> sequence_feature_columns{};
  std::vector<FeatureColumn> context_feature_columns{};
  std::vector<int64_t> units{};
  std::string cell_type{};
  std::function<Layer()> rnn_cell_fn{};
  bool return_sequences = false;
};

class RnnPart {
 public:
  // Throws InvalidArgument, which begins with `estimator`, for columns that SequenceFeatures or
  // DenseFeatures refuse, and for units, a cell_type and an rnn_cell_fn that are not as
  // RNNEstimatorOptions says.
  RnnPart(std::string estimator, const RnnPartOptions& options, int64_t units);

  struct Output {
    Tensor logits{};  // [batch, units], or [batch, steps, units] of all steps
    Tensor mask{};    // bool [batch, steps]: true for steps that are not padding
  };
  // Shows how long the sequences are. Throws InvalidArgument, which begins with the estimator, for
  // features that are not a dict, or that the columns refuse.
  Output operator()(const Features& features, ModelContext& context) const;

 private:
  std::string estimator_;
  SequenceFeatures sequences_;
  std::optional<DenseFeatures> context_;
  Layer network_;
};

}  // namespace muster::inline v0_1::internal
