// The first layer of a model of sequences, as tf.keras.experimental.SequenceFeatures.
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

// Options of SequenceFeatures.
struct SequenceFeaturesOptions {
  bool trainable = true;  // false: embeddings stay as they begin
  std::string name{};     // of the layer
};

// Joins the numbers of sequence columns, sorted by name, to float32 [batch, steps, all of them],
// with 0 (numbers: their default_value) behind the end of a sequence. As a Layer it gives a mask of
// the steps beside them, which recurrent layers take:
//
//   const SequenceFeatures input({embedding_column(words, 16)});
//   const Layer net = Sequential({input, LSTM(32), Dense(2)});
//
// Its variables are those of DenseFeatures.
class MUSTER_EXPORT SequenceFeatures {
 public:
  // What a call gives.
  struct Sequences {
    Tensor values{};   // [batch, steps, numbers]
    Tensor lengths{};  // int64 [batch]: the steps of each example
  };

  // Throws InvalidArgument for no columns, one that is no sequence or not dense, and two of one
  // name.
  explicit SequenceFeatures(const std::vector<FeatureColumn>& columns,
                            SequenceFeaturesOptions options = {});

  // Gives what the layer takes of these features, as DenseFeatures::inputs() does. Throws
  // InvalidArgument also for columns whose sequences are not equally long.
  LayerInputs inputs(const Features& features) const;
  Sequences operator()(const Features& features, CallContext& context) const;
  Sequences operator()(const Features& features) const;
  operator Layer() const { return layer_; }  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const feature_column::internal::ColumnInputs> inputs_;
  Layer layer_;
};

namespace feature_column {

// Adds what holds for a whole example to each of its steps: [batch, context] and [batch, steps,
// numbers] give [batch, steps, numbers + context]. Throws InvalidArgument for other axes.
MUSTER_EXPORT Tensor concatenate_context_input(const Tensor& context_input,
                                               const Tensor& sequence_input);

}  // namespace feature_column

}  // namespace muster::inline v0_1
