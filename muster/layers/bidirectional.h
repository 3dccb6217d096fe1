// Reads a sequence in both directions.
// Thread safety: immutable values.
#pragma once

#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// What becomes of the two outputs: side by side in the last axis, added, multiplied, their mean
// (Keras's "ave"), or two tensors (Keras's None).
enum class MergeMode { kConcat, kSum, kMul, kAve, kNone };

// Options of Bidirectional().
struct BidirectionalOptions {
  MergeMode merge_mode = MergeMode::kConcat;
  // By default a second layer like the first, with go_backwards turned over.
  std::optional<Layer> backward_layer{};
  std::string name{};
};

// Calls a recurrent layer (SimpleRNN, LSTM, GRU, an RNN of such a cell) and one with weights of its
// own that reads the other way round, and joins what they give; with return_sequences each output
// stands at the step it was made at. There the output of a step that does not count is 0, as in
// Keras. A state is that of the first layer followed by that of the second. Variables:
// "forward_lstm/kernel" and so on, then "backward_lstm/kernel", after the layers' names. Throws
// InvalidArgument for a layer of another kind, for two layers with the same go_backwards, and for
// two that differ in return_sequences, return_state, time_major, or, but for kConcat and kNone, in
// units.
MUSTER_EXPORT Layer Bidirectional(Layer layer, BidirectionalOptions options = {});

}  // namespace muster::inline v0_1
