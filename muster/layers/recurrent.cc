#include "muster/layers/recurrent.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/recurrent_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::RecurrentCell;

// Makes a layer of the options that all three have.
template <typename Options>
Layer recurrent(const char* layer, const char* class_name, const RecurrentCell& cell,
                Options options) {
  internal::check_positive(layer, "units", cell.units);
  internal::check_rate(layer, options.dropout, "dropout");
  internal::check_rate(layer, options.recurrent_dropout, "recurrent_dropout");
  if (options.stateful) {
    throw invalid_argument(
        fmt::format("{}: stateful is true", layer),
        "layers keep no state: with return_state, give the state of a batch to the next call, "
        "LayerInputs{.tensors = {x}, .state = state}");
  }
  internal::RecurrentSpec spec{.cell = cell,
                               .use_bias = options.use_bias,
                               .kernel_initializer = std::move(options.kernel_initializer),
                               .recurrent_initializer = std::move(options.recurrent_initializer),
                               .bias_initializer = std::move(options.bias_initializer),
                               .kernel_regularizer = std::move(options.kernel_regularizer),
                               .recurrent_regularizer = std::move(options.recurrent_regularizer),
                               .bias_regularizer = std::move(options.bias_regularizer),
                               .activity_regularizer = std::move(options.activity_regularizer),
                               .kernel_constraint = std::move(options.kernel_constraint),
                               .recurrent_constraint = std::move(options.recurrent_constraint),
                               .bias_constraint = std::move(options.bias_constraint),
                               .dropout = options.dropout,
                               .recurrent_dropout = options.recurrent_dropout,
                               .return_sequences = options.return_sequences,
                               .return_state = options.return_state,
                               .go_backwards = options.go_backwards,
                               .zero_output_for_mask = options.zero_output_for_mask};
  return Layer(std::make_shared<internal::RecurrentImpl>(class_name, std::move(spec),
                                                         std::move(options.name)));
}

// Makes the bias of an LSTM: 1 for the gate f, and what `others` makes for the gates i, and c and
// o.
Initializer with_forget_bias(Initializer others) {
  return [others = std::move(others)](const Shape& shape, DType dtype, RandomKey key) {
    const int64_t units = shape[0] / 4;
    return at::cat({others({units}, dtype, key.derive(0)), at::ones({units}, dtype),
                    others({2 * units}, dtype, key.derive(1))});
  };
}

}  // namespace

Layer SimpleRNN(int64_t units, SimpleRNNOptions options) {
  const RecurrentCell cell{
      .kind = RecurrentCell::Kind::kSimple, .units = units, .activation = options.activation};
  return recurrent("SimpleRNN", "simple_rnn", cell, std::move(options));
}

Layer LSTM(int64_t units, LSTMOptions options) {
  const RecurrentCell cell{.kind = RecurrentCell::Kind::kLstm,
                           .units = units,
                           .activation = options.activation,
                           .recurrent_activation = options.recurrent_activation};
  if (options.unit_forget_bias) {
    options.bias_initializer = with_forget_bias(std::move(options.bias_initializer));
  }
  return recurrent("LSTM", "lstm", cell, std::move(options));
}

Layer GRU(int64_t units, GRUOptions options) {
  const RecurrentCell cell{.kind = RecurrentCell::Kind::kGru,
                           .units = units,
                           .activation = options.activation,
                           .recurrent_activation = options.recurrent_activation,
                           .reset_after = options.reset_after};
  return recurrent("GRU", "gru", cell, std::move(options));
}

}  // namespace muster::inline v0_1
