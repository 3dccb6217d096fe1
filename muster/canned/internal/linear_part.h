// The linear model inside of canned estimators: Linear* and DNNLinearCombined*.
// Thread safety: an immutable value; calls are safe from several threads with different contexts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/features/linear_model.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

class LinearPart {
 public:
  // All its variables are below it: "linear/linear_model/age/weights".
  static constexpr const char* kScope = "linear/";
  static constexpr const char* kModelScope = "linear/linear_model/";

  // Throws InvalidArgument, which begins with `estimator`, for columns that LinearModel refuses.
  LinearPart(std::string estimator, const std::vector<FeatureColumn>& columns, int64_t units,
             feature_column::Combiner sparse_combiner);

  // Returns [batch, units], and shows "bias" and "fraction_of_zero_weights". Throws
  // InvalidArgument, which begins with the estimator, for features that are not a dict, or that the
  // columns refuse.
  Tensor logits(const Features& features, ModelContext& context) const;

  // Returns the layer, whose variables begin with kModelScope.
  const LinearModel& model() const { return model_; }

 private:
  std::string estimator_;
  LinearModel model_;
};

}  // namespace muster::inline v0_1::internal
