// A linear model with feature columns, like tf.compat.v1.feature_column.linear_model.
// Thread safety: immutable values, as layers are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/combiner.h"
#include "muster/features/feature_column.h"
#include "muster/layers/layer.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

namespace feature_column::internal {
class ColumnInputs;
}

// Options of LinearModel.
struct LinearModelOptions {
  int64_t units = 1;  // of the output
  // How to combine the weights of an example's ids; only ids of the same column are combined.
  feature_column::Combiner sparse_combiner = feature_column::Combiner::kSum;
  bool trainable = true;
  std::string name{};  // of the layer; else "linear_model"
};

// Computes bias + the sum over columns of their numbers times weights: [batch, units]. A
// categorical column has a row of weights for each id; a step updates only the rows it used. It is
// a Layer over the entries that feature_column::resolve() makes; make it once, outside of the model
// function:
//
//   const LinearModel linear({age_buckets, job, age_x_job}, {.units = 3});
//   ...
//   const Tensor logits = linear(features, context.calls());  // in a model function
//
// Variables: "<column>/weights" [num_buckets or numbers, units], row-sparse if categorical, and
// "bias_weights" [units], all initially 0; "<column>/embedding_weights" for embeddings. Called as
// context.model("linear", [&] { return linear; })(linear.inputs(features)) they have the names of
// TensorFlow's estimators: "linear/linear_model/age/weights".
class MUSTER_EXPORT LinearModel {
 public:
  // Throws InvalidArgument for no columns, two of one name, and units < 1.
  explicit LinearModel(const std::vector<FeatureColumn>& columns, LinearModelOptions options = {});

  // As in DenseFeatures.
  LayerInputs inputs(const Features& features) const;
  Tensor operator()(const Features& features, CallContext& context) const;
  Tensor operator()(const Features& features) const;
  operator Layer() const { return layer_; }  // NOLINT(google-explicit-constructor)

  // The terms of one variable in the logits of a batch: the logits are the bias plus, over all
  // columns, the sum of values times the weights with these ids.
  struct Terms {
    std::string column{};
    // int64 [batch, n], below 0 for none; undefined: 0, 1, ... of each example.
    Tensor ids{};
    Tensor values{};  // float32 [batch, n]; undefined: 1
  };
  // Returns the terms of each column, in the order of their names, on the CPU, with Combiner::kSum.
  // For update rules that need the examples, not only a gradient. Throws InvalidArgument for a
  // column with its own table, which is not linear, and as inputs() does.
  std::vector<Terms> terms(const Features& features) const;

 private:
  std::shared_ptr<const feature_column::internal::ColumnInputs> inputs_;
  Layer layer_;
};

}  // namespace muster::inline v0_1
