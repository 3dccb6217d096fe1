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

// Brings the variables, which the first call creates. `axes` are the axes of the input except for
// the last one, "batch, steps".
void add_weights(const RecurrentSpec& spec, const Tensor& input, const char* axes,
                 CallContext& context, const RecurrentVariables& variables,
                 RecurrentSequence& sequence) {
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
    refuse_input(context, variables.layer, fmt::format("[{}, {}]", axes, sequence.kernel.size(0)),
                 input, "a layer is called with as many features as at its first call");
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

}  // namespace

LayerOutputs call_recurrent(const RecurrentSpec& spec, const LayerInputs& inputs,
                            CallContext& context, const RecurrentVariables& variables) {
  SequenceReader reader{.layer = variables.reader != nullptr ? *variables.reader : variables.layer,
                        .prefix = variables.prefix,
                        .state_sizes = spec.cell.state_sizes()};
  if (variables.reader == nullptr)
    reader.first_slot = variables.first_slot + RecurrentVariables::kWeights;
  return read_sequence(
      spec.sequence, reader, inputs, context, [&](const OrderedSequence& given) -> SequenceResult {
        const Tensor& input = inputs.tensors[0];
        if (input.dim() != 3) {
          refuse_input(context, reader.layer, "[batch, steps, features]", input);
        }
        RecurrentSequence sequence{.counts = given.counts, .state = given.state};
        add_weights(spec, input, spec.sequence.time_major ? "steps, batch" : "batch, steps",
                    context, variables, sequence);
        sequence.inputs = given.steps;
        add_dropout(spec, context, variables.layer, sequence);
        RecurrentResult result = recurrent_sequence(spec.cell, sequence);
        return {.outputs = std::move(result.outputs),
                .last = result.state[0],
                .state = std::move(result.state)};
      });
}

RNNCellImpl::Step BuiltInCellImpl::begin(const Tensor& first, CallContext& context) const {
  if (first.dim() != 2) refuse_input(context, identity(), "[batch, features]", first);
  RecurrentSequence one;
  add_weights(spec_, first, "batch", context, {.layer = identity()}, one);
  // Dropout of ones gives the factors of every step.
  const Tensor ones = at::ones_like(first).unsqueeze(0);
  one.inputs = ones;
  add_dropout(spec_, context, identity(), one);
  const Tensor factors = one.inputs.is_same(ones) ? Tensor() : one.inputs;
  return [cell = spec_.cell, one, factors](const Tensor& input,
                                           const std::vector<Tensor>& state) mutable -> Result {
    one.inputs = input.unsqueeze(0).contiguous();
    if (factors.defined()) one.inputs = one.inputs * factors;
    one.state = state;
    RecurrentResult made = recurrent_sequence(cell, one);
    return {.output = made.state[0], .state = std::move(made.state)};
  };
}

RecurrentImpl::RecurrentImpl(const Layer& cell, SequenceOptions sequence, std::string name)
    : LayerImpl("rnn", std::move(name)),
      spec_(dynamic_cast<const BuiltInCellImpl&>(cell.impl()).spec()),
      cell_(cell) {
  spec_.sequence = std::move(sequence);
}

LayerOutputs RecurrentImpl::call(const LayerInputs& inputs, CallContext& context) const {
  context.name_of(identity());
  return call_recurrent(
      spec_, inputs, context,
      cell_ ? RecurrentVariables{.layer = cell_->impl().identity(), .reader = &identity()}
            : RecurrentVariables{.layer = identity()});
}

}  // namespace muster::inline v0_1::internal
