#include "muster/layers/internal/lstm_gru_steps.h"

#include <utility>

#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/traced_steps.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// The state's part of the sums, with factors of dropout for each gate.
class StateSums {
 public:
  StateSums(const RecurrentCell& cell, const RecurrentSequence& sequence)
      : kernel_(sequence.recurrent_kernel), units_(cell.units) {
    if (!sequence.state_dropout.defined()) return;
    parts_ = kernel_.split(units_, 1);
    factors_ = sequence.state_dropout.unbind(0);
  }

  // For the gates begin ... end - 1: state x kernel, added to `sums`.
  Tensor add(const Tensor& sums, const Tensor& state, int64_t begin, int64_t end) const {
    if (factors_.empty()) {
      const Tensor kernel = kernel_.slice(1, begin * units_, end * units_);
      return kernel.scalar_type() == kBFloat16 ? sums + product_of(state, kernel)
                                               : at::addmm(sums, state, kernel);
    }
    std::vector<Tensor> products;
    for (int64_t gate = begin; gate < end; ++gate) {
      const auto i = static_cast<size_t>(gate);
      products.push_back(product_of(state * factors_[i], parts_[i]));
    }
    return sums + at::cat(products, 1);
  }

 private:
  Tensor kernel_;
  int64_t units_;
  std::vector<Tensor> parts_, factors_;
};

std::vector<Tensor> lstm_step(const RecurrentCell& cell, const StateSums& sums, const Tensor& input,
                              const std::vector<Tensor>& state) {
  const std::vector<Tensor> gates = sums.add(input, state[0], 0, 4).chunk(4, 1);
  const Tensor i = cell.recurrent_activation(gates[0]), f = cell.recurrent_activation(gates[1]);
  const Tensor c = f * state[1] + i * cell.activation(gates[2]);
  return {cell.recurrent_activation(gates[3]) * cell.activation(c), c};
}

std::vector<Tensor> gru_step(const RecurrentCell& cell, const StateSums& sums, const Tensor& input,
                             const Tensor& state_bias, const std::vector<Tensor>& state) {
  const Tensor& before = state[0];
  const int64_t u = cell.units;
  Tensor z, r, h;
  if (cell.reset_after) {
    const Tensor bias = state_bias.defined() ? state_bias : at::zeros({3 * u}, input.options());
    const std::vector<Tensor> x = input.chunk(3, 1), s = sums.add(bias, before, 0, 3).chunk(3, 1);
    z = cell.recurrent_activation(x[0] + s[0]);
    r = cell.recurrent_activation(x[1] + s[1]);
    h = cell.activation(x[2] + r * s[2]);
  } else {
    const std::vector<Tensor> gates = sums.add(input.slice(1, 0, 2 * u), before, 0, 2).chunk(2, 1);
    z = cell.recurrent_activation(gates[0]);
    r = cell.recurrent_activation(gates[1]);
    h = cell.activation(sums.add(input.slice(1, 2 * u), r * before, 2, 3));
  }
  return {z * before + (1 - z) * h};
}

Tensor dropped_input_sums(const RecurrentCell& cell, const RecurrentSequence& sequence,
                          const Tensor& bias) {
  if (!sequence.input_dropout.defined()) return input_sums(sequence.inputs, sequence.kernel, bias);
  const std::vector<Tensor> kernels = sequence.kernel.split(cell.units, 1);
  std::vector<Tensor> sums;
  for (int64_t gate = 0; gate < cell.gates(); ++gate) {
    sums.push_back(input_sums(sequence.inputs * sequence.input_dropout[gate],
                              kernels[static_cast<size_t>(gate)], Tensor()));
  }
  const Tensor all = at::cat(sums, -1);
  return bias.defined() ? all + bias : all;
}

}  // namespace

Tensor input_sums(const Tensor& inputs, const Tensor& kernel, const Tensor& bias) {
  const Tensor rows = inputs.flatten(0, 1);
  Tensor sums;
  if (bias.defined() && kernel.scalar_type() != kBFloat16) {
    sums = at::addmm(bias, rows, kernel);
  } else {
    sums = product_of(rows, kernel);
    if (bias.defined()) sums = sums + bias;
  }
  return sums.view({inputs.size(0), inputs.size(1), kernel.size(1)});
}

RecurrentResult recurrent_steps(const RecurrentCell& cell, const RecurrentSequence& sequence) {
  Tensor bias = sequence.bias, state_bias;
  if (bias.defined() && cell.has_state_bias()) {
    state_bias = bias.select(0, 1);
    bias = bias.select(0, 0);
  }
  const StateSums sums(cell, sequence);
  std::vector<Tensor> sequences{dropped_input_sums(cell, sequence, bias)};
  if (sequence.counts.defined()) sequences.push_back(sequence.counts);
  StepsResult result =
      compute_steps(sequences, sequence.state,
                    [&](const std::vector<Tensor>& slices, const std::vector<Tensor>& state) {
                      std::vector<Tensor> next;
                      switch (cell.kind) {
                        case RecurrentCell::Kind::kSimple:
                          next = {cell.activation(sums.add(slices[0], state[0], 0, 1))};
                          break;
                        case RecurrentCell::Kind::kLstm:
                          next = lstm_step(cell, sums, slices[0], state);
                          break;
                        case RecurrentCell::Kind::kGru:
                          next = gru_step(cell, sums, slices[0], state_bias, state);
                          break;
                      }
                      if (slices.size() > 1) {
                        const Tensor counts = slices[1].unsqueeze(1);
                        for (size_t i = 0; i < next.size(); ++i)
                          next[i] = at::where(counts, next[i], state[i]);
                      }
                      next.insert(next.begin(), next.front());
                      return next;
                    });
  return {std::move(result.outputs), std::move(result.state)};
}

}  // namespace muster::inline v0_1::internal
