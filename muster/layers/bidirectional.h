// Reads a sequence in both directions.
// Thread safety: immutable values.
#pragma once

#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// How to combine the two outputs: concatenated along the last axis, added, multiplied, their mean
// (Keras's "ave"), or two tensors (Keras's None).
enum class MergeMode { kConcat, kSum, kMul, kAve, kNone };

// Options of Bidirectional().
struct BidirectionalOptions {
  MergeMode merge_mode = MergeMode::kConcat;
  // Default: a second layer like the first, with the opposite go_backwards.
  std::optional<Layer> backward_layer{};
  std::string name{};
};

// Calls a recurrent layer (SimpleRNN, LSTM, GRU, an RNN of such a cell) and a second one with its
// own weights that reads in the other direction, and combines their outputs. With return_sequences
// each output is at the index of its step; the output of a masked step is 0, as in Keras. A state
// is that of the first layer followed by that of the second. Variables: "forward_lstm/kernel" and
// so on, then "backward_lstm/kernel", with the layers' names. Throws InvalidArgument for a layer of
// another kind, for two layers with the same go_backwards, and for two layers that differ in
// return_sequences, return_state, time_major, or, except for kConcat and kNone, in units.
MUSTER_EXPORT Layer Bidirectional(Layer layer, BidirectionalOptions options = {});

}  // namespace muster::inline v0_1
