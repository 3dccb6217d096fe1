// The first layer of a model with feature columns, like tf.keras.layers.DenseFeatures.
// Thread safety: immutable values, as layers are.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/feature_column.h"
#include "muster/layers/layer.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

namespace feature_column::internal {
class ColumnInputs;
}

// Options of DenseFeatures.
struct DenseFeaturesOptions {
  bool trainable = true;  // false: embeddings do not train
  std::string name{};     // of the layer; "input_layer" inside of TensorFlow's DNN estimators
};

// Concatenates the numbers of dense columns, sorted by name, to float32 [batch, numbers]. It is a
// Layer over the entries that feature_column::resolve() makes, and may be the first one of a
// Sequential. Make it once, outside of the model function:
//
//   const DenseFeatures input({numeric_column("age"), embedding_column(job, 8)});
//   ...
//   const Tensor hidden = input(features, context.calls());  // in a model function
//
// To give it a name, use context.model("dnn", [&] { return input; }), and call that on
// input.inputs(features).
//
// Variables: "<column>/embedding_weights" [num_buckets, dimension], row-sparse, for each embedding;
// columns of shared_embeddings() have one, "<collection>/embedding_weights".
class MUSTER_EXPORT DenseFeatures {
 public:
  // Throws InvalidArgument for no columns, one that is not dense, and two of one name.
  explicit DenseFeatures(const std::vector<FeatureColumn>& columns,
                         DenseFeaturesOptions options = {});

  // Returns the layer's inputs from these features. Features that were not resolved in the pipeline
  // are resolved here, which costs time in the step. Throws as FeatureTransform does.
  LayerInputs inputs(const Features& features) const;
  // Calls the layer on inputs(features), in this context, or in that of the replica function.
  Tensor operator()(const Features& features, CallContext& context) const;
  Tensor operator()(const Features& features) const;
  operator Layer() const { return layer_; }  // NOLINT(google-explicit-constructor)

  // The size of the last axis of its output.
  int64_t width() const;

 private:
  std::shared_ptr<const feature_column::internal::ColumnInputs> inputs_;
  Layer layer_;
};

}  // namespace muster::inline v0_1
