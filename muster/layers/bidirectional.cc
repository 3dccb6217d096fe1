#include "muster/layers/bidirectional.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/recurrent_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// One of the two directions.
struct Direction {
  internal::RecurrentSpec spec;
  std::string prefix{};  // of its variables
};

class BidirectionalImpl final : public LayerImpl {
 public:
  BidirectionalImpl(Direction forward, Direction backward, BidirectionalOptions options)
      : LayerImpl("bidirectional", std::move(options.name)),
        forward_(std::move(forward)),
        backward_(std::move(backward)),
        merge_mode_(options.merge_mode) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    LayerInputs there = inputs, back = inputs;
    split_state(inputs, context, there, back);
    LayerOutputs first = call_recurrent(forward_.spec, there, context,
                                        {.layer = identity(), .prefix = forward_.prefix});
    LayerOutputs second = call_recurrent(backward_.spec, back, context,
                                         {.layer = identity(),
                                          .first_slot = internal::RecurrentVariables::kSlots,
                                          .prefix = backward_.prefix});
    LayerOutputs outputs;
    Tensor reversed = second.tensors[0];
    if (forward_.spec.sequence.return_sequences)
      reversed = reversed.flip(forward_.spec.sequence.time_major ? 0 : 1);
    outputs.tensors = merged(first.tensors[0], reversed);
    if (!first.masks.empty()) {
      outputs.masks.assign(outputs.tensors.size(), inputs.masks[0]);
    }
    outputs.state = std::move(first.state);
    outputs.state.insert(outputs.state.end(), second.state.begin(), second.state.end());
    return outputs;
  }

  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  void split_state(const LayerInputs& inputs, CallContext& context, LayerInputs& there,
                   LayerInputs& back) const {
    if (inputs.state.empty()) return;
    const size_t first = forward_.spec.cell.states(), second = backward_.spec.cell.states();
    if (inputs.state.size() != first + second) {
      throw invalid_argument(
          fmt::format("layer {}: expected a state of {} tensors, was given {}",
                      context.name_of(identity()), first + second, inputs.state.size()),
          "give the state of the layer that reads forwards, then that of the other");
    }
    const auto middle = inputs.state.begin() + static_cast<std::ptrdiff_t>(first);
    there.state.assign(inputs.state.begin(), middle);
    back.state.assign(middle, inputs.state.end());
  }

  std::vector<Tensor> merged(const Tensor& first, const Tensor& second) const {
    switch (merge_mode_) {
      case MergeMode::kConcat:
        return {at::cat({first, second}, -1)};
      case MergeMode::kSum:
        return {first + second};
      case MergeMode::kMul:
        return {first * second};
      case MergeMode::kAve:
        return {(first + second) / 2};
      case MergeMode::kNone:
        return {first, second};
    }
    throw internal_error(fmt::format("unknown merge mode {}", static_cast<int>(merge_mode_)));
  }

  Direction forward_, backward_;
  MergeMode merge_mode_;
};

Direction direction_of(const std::string& title, const Layer& layer, const char* argument,
                       const char* prefix) {
  const LayerIdentity& identity = layer.impl().identity();
  const auto* recurrent = dynamic_cast<const internal::RecurrentImpl*>(&layer.impl());
  if (recurrent == nullptr) {
    throw invalid_argument(
        fmt::format("{}: {} is a layer \"{}\"", title, argument, identity.class_name),
        fmt::format("{} must be a SimpleRNN, an LSTM or a GRU", argument));
  }
  const std::string& name = identity.given_name;
  Direction direction{recurrent->spec(),
                      fmt::format("{}_{}/", prefix, name.empty() ? identity.class_name : name)};
  // As in Keras; an output that is not a step's own must not reach the other direction's sum.
  direction.spec.sequence.zero_output_for_mask = direction.spec.sequence.return_sequences;
  return direction;
}

void check_pair(const std::string& title, const internal::RecurrentSpec& there,
                const internal::RecurrentSpec& back, MergeMode merge_mode) {
  const auto refuse = [&title](const char* what, auto first, auto second, const char* hint) {
    throw invalid_argument(
        fmt::format("{}: {} is {} in layer, and {} in backward_layer", title, what, first, second),
        hint);
  };
  if (there.sequence.go_backwards == back.sequence.go_backwards) {
    refuse("go_backwards", there.sequence.go_backwards, back.sequence.go_backwards,
           "one of the two layers must have go_backwards = true");
  }
  if (there.sequence.return_sequences != back.sequence.return_sequences) {
    refuse("return_sequences", there.sequence.return_sequences, back.sequence.return_sequences,
           "both layers must have the same return_sequences");
  }
  if (there.sequence.return_state != back.sequence.return_state) {
    refuse("return_state", there.sequence.return_state, back.sequence.return_state,
           "both layers must have the same return_state");
  }
  if (there.sequence.time_major != back.sequence.time_major) {
    refuse("time_major", there.sequence.time_major, back.sequence.time_major,
           "both layers must have the same time_major");
  }
  if (merge_mode != MergeMode::kConcat && merge_mode != MergeMode::kNone &&
      there.cell.units != back.cell.units) {
    refuse("units", there.cell.units, back.cell.units,
           "both layers must have the same units, or merge_mode be kConcat or kNone");
  }
}

}  // namespace

Layer Bidirectional(Layer layer, BidirectionalOptions options) {
  const std::string title = internal::titled("Bidirectional", options.name);
  Direction forward = direction_of(title, layer, "layer", "forward");
  Direction backward =
      direction_of(title, options.backward_layer.value_or(layer), "backward_layer", "backward");
  if (!options.backward_layer) {
    bool& go_backwards = backward.spec.sequence.go_backwards;
    go_backwards = !go_backwards;
  };
  check_pair(title, forward.spec, backward.spec, options.merge_mode);
  return Layer(std::make_shared<BidirectionalImpl>(std::move(forward), std::move(backward),
                                                   std::move(options)));
}

}  // namespace muster::inline v0_1
