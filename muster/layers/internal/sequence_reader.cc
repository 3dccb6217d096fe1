#include "muster/layers/internal/sequence_reader.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/layers/initializers.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/recurrent_state.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Where the axes of an input are.
struct SequenceAxes {
  explicit SequenceAxes(const SequenceOptions& options)
      : steps(options.time_major ? 0 : 1), batch(options.time_major ? 1 : 0) {}

  int64_t steps, batch;
};

[[noreturn]] void refuse_sequence(CallContext& context, const LayerIdentity& layer,
                                  const std::string& text, const std::string& hint) {
  throw invalid_argument(fmt::format("layer {}: {}", context.name_of(layer), text), hint);
}

void check_sequence(const SequenceOptions& options, const SequenceReader& reader,
                    const LayerInputs& inputs, CallContext& context) {
  const LayerIdentity& layer = reader.layer;
  if (inputs.tensors.size() != 1) {
    refuse_sequence(context, layer,
                    fmt::format("expected one tensor, was given {}", inputs.tensors.size()),
                    "pass a state separately: LayerInputs{.tensors = {x}, .state = {h}}");
  }
  const Tensor& input = inputs.tensors[0];
  const SequenceAxes axes(options);
  const char* order = options.time_major ? "[steps, batch" : "[batch, steps";
  check_dtype(context, layer, input);
  if (input.dim() < 3 || input.size(axes.steps) < 1) {
    refuse_input(context, layer, fmt::format("{}, features] with at least one step", order), input);
  }
  if (!inputs.masks.empty() && inputs.masks[0].defined() && inputs.masks[0].dim() != 2) {
    refuse_sequence(
        context, layer,
        fmt::format("expected a mask {}], was given {}", order, describe(inputs.masks[0])),
        "a mask selects the steps that count");
  }
  if (inputs.state.empty()) return;
  check_state(context, layer, inputs.state, reader.state_sizes, input.size(axes.batch), input);
}

// Returns the variables a stateful layer keeps its state in, which its first batch creates.
std::vector<Tensor> kept_state(const SequenceReader& reader, const Tensor& input, int64_t rows,
                               CallContext& context) {
  std::vector<Tensor> kept;
  for (size_t i = 0; i < reader.state_sizes.size(); ++i) {
    const Tensor& value =
        context.variable(reader.layer, reader.first_slot + static_cast<int>(i), [&] {
          if (rows == 0) {
            refuse_sequence(context, reader.layer,
                            "stateful is true, and its first batch has no rows",
                            "its state has as many rows as that batch: every replica needs some");
          }
          return VariableSpec{.name = fmt::format("{}state_{}", reader.prefix, i),
                              .shape = {rows, reader.state_sizes[i]},
                              .dtype = input.scalar_type(),
                              .initializer = initializers::zeros(),
                              .trainable = false,
                              .synchronization = VariableSynchronization::kOnRead,
                              .aggregation = VariableAggregation::kConcat,
                              .written_without_rows = true};  // by reset_states()
        });
    check_same_dtype(context, reader.layer, input, value);
    if (rows != 0 && value.size(0) != rows) {
      refuse_sequence(context, reader.layer,
                      fmt::format("stateful is true, and a batch of {} rows follows batches of {}",
                                  rows, value.size(0)),
                      "row i continues from row i of the batch before: drop the rest of an epoch "
                      "with batch(n, {.drop_remainder = true})");
    }
    kept.push_back(value);
  }
  return kept;
}

void keep_state(const std::vector<Tensor>& kept, const std::vector<Tensor>& state) {
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < kept.size(); ++i) Tensor(kept[i]).copy_(state[i]);
}

std::vector<Tensor> copies_of(const std::vector<Tensor>& kept) {
  std::vector<Tensor> copies;
  for (const Tensor& each : kept) copies.push_back(each.detach().clone());
  return copies;
}

// Zeroes outputs [steps, batch, ...] of steps that have none of their own: all steps that do not
// count, or the steps before the first one that does.
Tensor without_absent(const Tensor& outputs, const Tensor& counts, bool all) {
  Tensor absent = all ? counts.logical_not() : counts.cumsum(0).eq(0);
  while (absent.dim() < outputs.dim()) absent = absent.unsqueeze(-1);
  return outputs.masked_fill(absent, 0);
}

}  // namespace

LayerOutputs read_sequence(const SequenceOptions& options, const SequenceReader& reader,
                           const LayerInputs& inputs, CallContext& context,
                           const std::function<SequenceResult(const OrderedSequence&)>& compute) {
  check_sequence(options, reader, inputs, context);
  const Tensor& input = inputs.tensors[0];
  const int64_t rows = input.size(SequenceAxes(options).batch);
  const auto in_order = [&](const Tensor& given) {
    const Tensor steps = options.time_major ? given : given.transpose(0, 1);
    return (options.go_backwards ? steps.flip(0) : steps).contiguous();
  };
  const auto as_given = [&](const Tensor& steps) {
    return options.time_major ? steps : steps.transpose(0, 1);
  };
  // Evaluated or predicted data is not a continuation of the training data.
  std::vector<Tensor> kept;
  if (options.stateful && context.training()) kept = kept_state(reader, input, rows, context);
  const bool keeps = !kept.empty() && rows > 0;

  OrderedSequence sequence{.steps = in_order(input)};
  const bool masked = !inputs.masks.empty() && inputs.masks[0].defined();
  if (masked) sequence.counts = in_order(inputs.masks[0]);
  if (!inputs.state.empty()) {
    sequence.state = inputs.state;
  } else {
    sequence.state = keeps ? copies_of(kept) : zero_state(reader.state_sizes, rows, input);
  }
  SequenceResult result = compute(sequence);
  if (keeps) keep_state(kept, result.state);

  LayerOutputs outputs;
  // With a state of 0 the outputs before the first step that counts are 0 by themselves.
  const bool absent = masked && (options.zero_output_for_mask || !inputs.state.empty() || keeps);
  if (absent) {
    result.outputs = without_absent(result.outputs, sequence.counts, options.zero_output_for_mask);
    result.last = result.outputs.select(0, -1);
  }
  if (options.return_sequences) {
    outputs.tensors = {as_given(result.outputs)};
    if (masked) outputs.masks = {as_given(sequence.counts)};
    context.add_activity_loss(options.activity_regularizer, result.outputs.transpose(0, 1));
  } else {
    outputs.tensors = {result.last};
    context.add_activity_loss(options.activity_regularizer, result.last);
  }
  if (options.return_state) {
    outputs.state = std::move(result.state);
    // The state is given too, and counts as Keras counts it.
    for (const Tensor& state : outputs.state)
      context.add_activity_loss(options.activity_regularizer, state);
  }
  return outputs;
}

}  // namespace muster::inline v0_1::internal
