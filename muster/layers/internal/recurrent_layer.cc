#include "muster/layers/internal/recurrent_layer.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/recurrent_sequence.h"
#include "muster/layers/internal/weights.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

void check_recurrent_inputs(const RecurrentSpec& spec, const LayerInputs& inputs,
                            CallContext& context, const LayerIdentity& layer) {
  const auto refuse = [&](const std::string& text, const std::string& hint) {
    throw invalid_argument(fmt::format("layer {}: {}", context.name_of(layer), text), hint);
  };
  if (inputs.tensors.size() != 1) {
    refuse(fmt::format("expected one tensor, was given {}", inputs.tensors.size()),
           "a state goes beside it: LayerInputs{.tensors = {x}, .state = {h}}");
  }
  const Tensor& input = inputs.tensors[0];
  check_dtype(context, layer, input);
  if (input.dim() != 3 || input.size(1) < 1) {
    refuse_input(context, layer, "[batch, steps, features] with at least one step", input);
  }
  if (!inputs.masks.empty() && inputs.masks[0].defined() && inputs.masks[0].dim() != 2) {
    refuse(fmt::format("expected a mask [batch, steps], was given {}", describe(inputs.masks[0])),
           "a mask tells which steps count");
  }
  if (inputs.state.empty()) return;
  if (inputs.state.size() != spec.cell.states()) {
    refuse(fmt::format("expected a state of {}, was given {}",
                       spec.cell.states() == 1 ? "1 tensor" : "2 tensors", inputs.state.size()),
           "give the state that such a layer gives with return_state");
  }
  for (const Tensor& state : inputs.state) {
    const Shape shape{input.size(0), spec.cell.units};
    if (state.defined() && state.sizes() == shape && state.scalar_type() == input.scalar_type()) {
      continue;
    }
    refuse(fmt::format("expected a state {}{}, was given {}", dtype_name(input.scalar_type()),
                       describe(shape), state.defined() ? describe(state) : "an undefined tensor"),
           "a state is [batch, units], of the dtype of the input");
  }
}

// Brings the variables, which the first call creates.
void add_weights(const RecurrentSpec& spec, const Tensor& input, CallContext& context,
                 const RecurrentVariables& variables, RecurrentSequence& sequence) {
  const int64_t width = spec.cell.gates() * spec.cell.units;
  const auto named = [&](int slot, const char* name, const Shape& shape,
                         const Initializer& initializer, const Regularizer& regularizer,
                         const Constraint& constraint) {
    return weight(context, variables.layer, variables.first_slot + slot,
                  (variables.prefix + name).c_str(), shape, input, initializer, regularizer,
                  constraint);
  };
  sequence.kernel = named(0, "kernel", {input.size(-1), width}, spec.kernel_initializer,
                          spec.kernel_regularizer, spec.kernel_constraint);
  if (sequence.kernel.size(0) != input.size(-1)) {
    refuse_input(context, variables.layer,
                 fmt::format("[batch, steps, {}]", sequence.kernel.size(0)), input,
                 "a layer is called with as many features as at its first call");
  }
  sequence.recurrent_kernel =
      named(1, "recurrent_kernel", {spec.cell.units, width}, spec.recurrent_initializer,
            spec.recurrent_regularizer, spec.recurrent_constraint);
  if (context.mixed_precision()) {
    sequence.kernel = narrowed_weight(sequence.kernel);
    sequence.recurrent_kernel = narrowed_weight(sequence.recurrent_kernel);
  }
  if (!spec.use_bias) return;
  const Shape shape = spec.cell.has_state_bias() ? Shape{2, width} : Shape{width};
  sequence.bias =
      named(2, "bias", shape, spec.bias_initializer, spec.bias_regularizer, spec.bias_constraint);
}

// Draws which numbers are dropped. With a recurrent dropout each gate draws for itself; else one
// factor serves all gates, and is multiplied into the input.
void add_dropout(const RecurrentSpec& spec, CallContext& context, const LayerIdentity& layer,
                 RecurrentSequence& sequence) {
  if (!context.training()) return;
  const Tensor& input = sequence.inputs;
  const int64_t batch = input.size(1), gates = spec.cell.gates();
  const bool each_gate = spec.recurrent_dropout > 0 && gates > 1;
  const auto factors = [&](const Shape& shape, double rate) {
    return drop_mask(input, shape, context.random_key(layer), rate, 1 / (1 - rate));
  };
  if (spec.dropout > 0 && each_gate) {
    sequence.input_dropout = factors({gates, batch, input.size(2)}, spec.dropout);
  } else if (spec.dropout > 0) {
    sequence.inputs = input * factors({batch, input.size(2)}, spec.dropout);
  }
  if (spec.recurrent_dropout > 0) {
    sequence.state_dropout = factors({gates, batch, spec.cell.units}, spec.recurrent_dropout);
  }
}

// Zeroes outputs [steps, batch, units] of steps that have none of their own: all that do not count,
// or those before the first one that does.
Tensor without_absent(const Tensor& outputs, const Tensor& counts, bool all) {
  const Tensor absent = all ? counts.logical_not() : counts.cumsum(0).eq(0);
  return outputs.masked_fill(absent.unsqueeze(-1), 0);
}

}  // namespace

LayerOutputs call_recurrent(const RecurrentSpec& spec, const LayerInputs& inputs,
                            CallContext& context, const RecurrentVariables& variables) {
  check_recurrent_inputs(spec, inputs, context, variables.layer);
  const Tensor& input = inputs.tensors[0];
  const auto in_order = [&](const Tensor& batch_first) {
    const Tensor steps = batch_first.transpose(0, 1);
    return (spec.go_backwards ? steps.flip(0) : steps).contiguous();
  };
  RecurrentSequence sequence;
  add_weights(spec, input, context, variables, sequence);
  sequence.inputs = in_order(input);
  const bool masked = !inputs.masks.empty() && inputs.masks[0].defined();
  if (masked) sequence.counts = in_order(inputs.masks[0]);
  add_dropout(spec, context, variables.layer, sequence);
  sequence.state = inputs.state;
  while (sequence.state.size() < spec.cell.states()) {
    sequence.state.push_back(at::zeros({input.size(0), spec.cell.units}, input.options()));
  }
  RecurrentResult result = recurrent_sequence(spec.cell, sequence);
  LayerOutputs outputs;
  if (spec.return_state) outputs.state = result.state;
  // With a state of 0 the outputs before the first step that counts are 0 by themselves.
  const bool absent = masked && (spec.zero_output_for_mask || !inputs.state.empty());
  if (absent) {
    result.outputs = without_absent(result.outputs, sequence.counts, spec.zero_output_for_mask);
  }
  if (spec.return_sequences) {
    outputs.tensors = {result.outputs.transpose(0, 1)};
    if (masked) outputs.masks = {sequence.counts.transpose(0, 1)};
  } else {
    outputs.tensors = {absent ? result.outputs.select(0, -1) : result.state[0]};
  }
  context.add_activity_loss(spec.activity_regularizer, outputs.tensors[0]);
  return outputs;
}

}  // namespace muster::inline v0_1::internal
