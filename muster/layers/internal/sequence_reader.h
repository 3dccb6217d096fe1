// How every recurrent layer reads its sequence: in which order, with which mask, from which state,
// and which part becomes the result. recurrent.h says what the options mean. Thread safety:
// functions of the thread the context belongs to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/layers/layer.h"

namespace muster::inline v0_1::internal {

struct SequenceOptions {
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool time_major = false;
  bool zero_output_for_mask = false;
  Regularizer activity_regularizer{};
};

// Takes the options of that name from those of a layer.
template <typename Options>
SequenceOptions sequence_options(const Options& options) {
  return {.return_sequences = options.return_sequences,
          .return_state = options.return_state,
          .go_backwards = options.go_backwards,
          .stateful = options.stateful,
          .time_major = options.time_major,
          .zero_output_for_mask = options.zero_output_for_mask,
          .activity_regularizer = options.activity_regularizer};
}

// The layer that reads, and which of its variables keep the state when it is stateful.
struct SequenceReader {
  const LayerIdentity& layer;
  int first_slot = 0;
  std::string prefix{};                   // of the variables' names
  std::vector<int64_t> state_sizes = {};  // each [batch, size]
};

struct OrderedSequence {
  Tensor steps{};               // [steps, batch, ...], contiguous, in the order of reading
  Tensor counts{};              // [steps, batch], bool, contiguous; undefined: all steps count
  std::vector<Tensor> state{};  // to begin with
};

// A step that does not count must leave the state as it is, and repeat the output before it.
struct SequenceResult {
  Tensor outputs{};  // [steps, batch, ...]
  Tensor last{};     // of the last step
  std::vector<Tensor> state{};
};

LayerOutputs read_sequence(const SequenceOptions& options, const SequenceReader& reader,
                           const LayerInputs& inputs, CallContext& context,
                           const std::function<SequenceResult(const OrderedSequence&)>& compute);

}  // namespace muster::inline v0_1::internal
