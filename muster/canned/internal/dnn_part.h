// The feed-forward network inside of canned estimators: DNN* and DNNLinearCombined*.
// Thread safety: an immutable value; calls are safe from several threads with different contexts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/features/dense_features.h"
#include "muster/layers/activations.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::internal {

struct DnnPartOptions {
  // What stands before the names of options in errors: "" or "dnn_".
  std::string prefix{};
  std::vector<FeatureColumn> feature_columns{};
  std::vector<int64_t> hidden_units{};
  Activation activation_fn = activations::relu;
  double dropout = 0;
  bool batch_norm = false;
};

class DnnPart {
 public:
  // All its variables are below it: "dnn/hiddenlayer_0/kernel".
  static constexpr const char* kScope = "dnn/";

  // Throws InvalidArgument, which begins with `estimator`, for columns that DenseFeatures refuses,
  // hidden_units that are missing or below 1, and dropout outside of [0, 1).
  DnnPart(std::string estimator, const DnnPartOptions& options, int64_t units);

  // Gives [batch, units], and shows how the numbers after each layer are distributed, and which
  // part of them is 0. Throws InvalidArgument, which begins with the estimator, for features that
  // are not a dict, or that the columns refuse.
  Tensor logits(const Features& features, ModelContext& context) const;

 private:
  std::string estimator_;
  DenseFeatures input_;
  Layer network_;                    // gives the logits, and then what each hidden layer gives
  std::vector<std::string> scopes_;  // of the summaries of each of these
};

}  // namespace muster::inline v0_1::internal
