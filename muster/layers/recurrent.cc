#include "muster/layers/recurrent.h"

#include <memory>
#include <utility>

#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/noise_tensors.h"
#include "muster/layers/internal/recurrent_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Makes the bias of an LSTM: 1 for the gate f, and the result of `others` for the gates i, and c
// and o.
Initializer with_forget_bias(Initializer others) {
  return [others = std::move(others)](const Shape& shape, DType dtype, RandomKey key) {
    const int64_t units = shape[0] / 4;
    return at::cat({others({units}, dtype, key.derive(0)), at::ones({units}, dtype),
                    others({2 * units}, dtype, key.derive(1))});
  };
}

// The options of the cell; a layer and its cell have the same.
template <typename Options>
internal::RecurrentSpec spec_of(const char* layer, internal::RecurrentCell cell, Options& options) {
  const std::string title = internal::titled(layer, options.name);
  internal::check_positive(title, "units", cell.units);
  internal::check_rate(title, options.dropout, "dropout");
  internal::check_rate(title, options.recurrent_dropout, "recurrent_dropout");
  cell.activation = options.activation;
  if constexpr (requires { options.recurrent_activation; })
    cell.recurrent_activation = options.recurrent_activation;
  if constexpr (requires { options.reset_after; }) cell.reset_after = options.reset_after;
  if constexpr (requires { options.unit_forget_bias; }) {
    if (options.unit_forget_bias)
      options.bias_initializer = with_forget_bias(std::move(options.bias_initializer));
  }
  return {.cell = cell,
          .use_bias = options.use_bias,
          .kernel_initializer = std::move(options.kernel_initializer),
          .recurrent_initializer = std::move(options.recurrent_initializer),
          .bias_initializer = std::move(options.bias_initializer),
          .kernel_regularizer = std::move(options.kernel_regularizer),
          .recurrent_regularizer = std::move(options.recurrent_regularizer),
          .bias_regularizer = std::move(options.bias_regularizer),
          .kernel_constraint = std::move(options.kernel_constraint),
          .recurrent_constraint = std::move(options.recurrent_constraint),
          .bias_constraint = std::move(options.bias_constraint),
          .dropout = options.dropout,
          .recurrent_dropout = options.recurrent_dropout};
}

template <typename Options>
Layer recurrent(const char* layer, const char* class_name, const internal::RecurrentCell& cell,
                Options options) {
  internal::RecurrentSpec spec = spec_of(layer, cell, options);
  spec.sequence = internal::sequence_options(options);
  return Layer(std::make_shared<internal::RecurrentImpl>(class_name, std::move(spec),
                                                         std::move(options.name)));
}

template <typename Options>
Layer cell_layer(const char* layer, const char* class_name, const internal::RecurrentCell& cell,
                 Options options) {
  internal::RecurrentSpec spec = spec_of(layer, cell, options);
  return Layer(std::make_shared<internal::BuiltInCellImpl>(class_name, std::move(spec),
                                                           std::move(options.name)));
}

}  // namespace

Layer SimpleRNN(int64_t units, SimpleRNNOptions options) {
  return recurrent("SimpleRNN", "simple_rnn",
                   {.kind = internal::RecurrentCell::Kind::kSimple, .units = units},
                   std::move(options));
}

Layer LSTM(int64_t units, LSTMOptions options) {
  return recurrent("LSTM", "lstm", {.kind = internal::RecurrentCell::Kind::kLstm, .units = units},
                   std::move(options));
}

Layer GRU(int64_t units, GRUOptions options) {
  return recurrent("GRU", "gru", {.kind = internal::RecurrentCell::Kind::kGru, .units = units},
                   std::move(options));
}

Layer SimpleRNNCell(int64_t units, SimpleRNNCellOptions options) {
  return cell_layer("SimpleRNNCell", "simple_rnn_cell",
                    {.kind = internal::RecurrentCell::Kind::kSimple, .units = units},
                    std::move(options));
}

Layer LSTMCell(int64_t units, LSTMCellOptions options) {
  return cell_layer("LSTMCell", "lstm_cell",
                    {.kind = internal::RecurrentCell::Kind::kLstm, .units = units},
                    std::move(options));
}

Layer GRUCell(int64_t units, GRUCellOptions options) {
  return cell_layer("GRUCell", "gru_cell",
                    {.kind = internal::RecurrentCell::Kind::kGru, .units = units},
                    std::move(options));
}

}  // namespace muster::inline v0_1
