// The first layer of a model of sequences, like tf.keras.experimental.SequenceFeatures.
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
  bool trainable = true;  // false: embeddings do not train
  std::string name{};     // of the layer
};

// Concatenates the numbers of sequence columns, sorted by name, to float32 [batch, steps, numbers],
// with 0 (numbers: their default_value) after the end of a sequence. As a Layer it also returns a
// mask of the steps, for recurrent layers:
//
//   const SequenceFeatures input({embedding_column(words, 16)});
//   const Layer net = Sequential({input, LSTM(32), Dense(2)});
//
// Its variables are those of DenseFeatures.
class MUSTER_EXPORT SequenceFeatures {
 public:
  // The result of a call.
  struct Sequences {
    Tensor values{};   // [batch, steps, numbers]
    Tensor lengths{};  // int64 [batch]: the steps of each example
  };

  // Throws InvalidArgument without columns, for a column that is not a dense sequence column, and
  // for two of one name.
  explicit SequenceFeatures(const std::vector<FeatureColumn>& columns,
                            SequenceFeaturesOptions options = {});

  // Returns the layer's inputs from these features, as DenseFeatures::inputs() does. Also throws
  // InvalidArgument for columns whose sequences differ in length.
  LayerInputs inputs(const Features& features) const;
  Sequences operator()(const Features& features, CallContext& context) const;
  Sequences operator()(const Features& features) const;
  operator Layer() const { return layer_; }  // NOLINT(google-explicit-constructor)

 private:
  std::shared_ptr<const feature_column::internal::ColumnInputs> inputs_;
  Layer layer_;
};

namespace feature_column {

// Appends the values of a whole example to each of its steps: [batch, context] and [batch, steps,
// numbers] become [batch, steps, numbers + context]. Throws InvalidArgument for other axes.
MUSTER_EXPORT Tensor concatenate_context_input(const Tensor& context_input,
                                               const Tensor& sequence_input);

}  // namespace feature_column

}  // namespace muster::inline v0_1
