#include "muster/layers/internal/recurrent_sequence.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <utility>

#include "muster/layers/internal/bfloat16.h"
#include "muster/layers/internal/lstm_gru_kernels.h"
#include "muster/layers/internal/matrix_product.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/thread_ranges.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = c10::optional<Tensor>;  // autograd takes no undefined tensor

MaybeTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : MaybeTensor();
}

// Fewer numbers than this are not worth a second thread.
constexpr int64_t kUnitsOfThread = 16384;

template <typename Step>
void compute_step(const Step& step, int64_t rows) {
  const int64_t grain = std::max<int64_t>(1, kUnitsOfThread / step.units);
  over_ranges(rows, grain, [&](int64_t begin, int64_t end) { compute_rows(step, begin, end); });
}

// Shows a tensor [steps, ...] as memory of numbers, a step after another.
template <typename T>
class Steps {
 public:
  explicit Steps(const Tensor& tensor)
      : data_(tensor.defined() ? tensor.data_ptr<T>() : nullptr),
        step_(tensor.defined() && tensor.size(0) > 0 ? tensor.numel() / tensor.size(0) : 0) {}
  T* operator[](int64_t t) const { return data_ == nullptr ? nullptr : data_ + t * step_; }

 private:
  T* data_;
  int64_t step_;
};

// What the forward of a sequence leaves behind. States have one step more: the first one is what
// they begin with.
struct Memory {
  Tensor gates{};      // [steps, batch, 4 * units]
  Tensor outputs{};    // [steps + 1, batch, units]
  Tensor cells{};      // the same, of an LSTM
  Tensor cell_tanh{};  // [steps, batch, units], of an LSTM
};

// Adds left x right to `sum`.
void add_product(const Tensor& sum, const Tensor& left, const Tensor& right) {
  if (right.scalar_type() == kBFloat16) {
    sum.add_(product_of(left, right));
  } else {
    sum.addmm_(left, right);
  }
}

Tensor states_from(const Tensor& first, int64_t steps) {
  Tensor states = at::empty({steps + 1, first.size(0), first.size(1)}, first.options());
  states.select(0, 0).copy_(first);
  return states;
}

Memory lstm_forward(const RecurrentSequence& s) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const int64_t steps = s.inputs.size(0), rows = s.inputs.size(1), units = s.state[0].size(1);
  Memory memory{.gates = input_sums(s.inputs, s.kernel, s.bias),
                .outputs = states_from(s.state[0], steps),
                .cells = states_from(s.state[1], steps),
                .cell_tanh = at::empty({steps, rows, units}, s.inputs.options())};
  with_weight_type(s.inputs.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Steps<T> gates(memory.gates), outputs(memory.outputs), cells(memory.cells),
        tanh(memory.cell_tanh);
    const Steps<bool> counts(s.counts);
    for (int64_t t = 0; t < steps; ++t) {
      add_product(memory.gates.select(0, t), memory.outputs.select(0, t), s.recurrent_kernel);
      compute_step(LstmForward<T>{units, gates[t], cells[t], outputs[t], counts[t], cells[t + 1],
                                  tanh[t], outputs[t + 1]},
                   rows);
    }
  });
  return memory;
}

Memory gru_forward(const RecurrentSequence& s) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const int64_t steps = s.inputs.size(0), rows = s.inputs.size(1), units = s.state[0].size(1);
  const Tensor bias = s.bias.defined() ? s.bias[0] : Tensor();
  const Tensor state_bias =
      s.bias.defined() ? s.bias[1] : at::zeros({3 * units}, s.inputs.options());
  const Tensor input = input_sums(s.inputs, s.kernel, bias);
  Tensor state = at::empty({rows, 3 * units}, s.inputs.options());
  Memory memory{.gates = at::empty({steps, rows, 4 * units}, s.inputs.options()),
                .outputs = states_from(s.state[0], steps)};
  with_weight_type(s.inputs.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Steps<T> gates(memory.gates), outputs(memory.outputs), inputs(input);
    const Steps<bool> counts(s.counts);
    for (int64_t t = 0; t < steps; ++t) {
      state.copy_(state_bias.expand_as(state));
      add_product(state, memory.outputs.select(0, t), s.recurrent_kernel);
      compute_step(GruForward<T>{units, inputs[t], state.data_ptr<T>(), outputs[t], counts[t],
                                 gates[t], outputs[t + 1]},
                   rows);
    }
  });
  return memory;
}

// Gradients with respect to what goes into a sequence, in the order of the functions' arguments.
struct Wanted {
  bool inputs, kernel, recurrent_kernel, bias, state;
};

struct Gradients {
  Tensor inputs{}, kernel{}, recurrent_kernel{}, bias{};
  std::vector<Tensor> state{};
};

// Makes memory for the gradient of what a sequence ended with.
Tensor gradient_from(const Tensor& gradient, const Tensor& state) {
  return gradient.defined() ? gradient.clone(at::MemoryFormat::Contiguous) : at::zeros_like(state);
}

// Makes the gradients of what the sums were made of.
void finish(Gradients& gradients, const RecurrentSequence& s, const Memory& memory,
            const Tensor& input_sum_gradients, const Tensor& state_sum_gradients, Wanted wanted) {
  const Tensor of_inputs = input_sum_gradients.flatten(0, 1);
  if (wanted.inputs) gradients.inputs = product_of(of_inputs, s.kernel.t()).view(s.inputs.sizes());
  if (wanted.kernel) {
    gradients.kernel = kernel_gradient(s.inputs.flatten(0, 1), s.kernel, of_inputs);
  }
  if (wanted.recurrent_kernel) {
    gradients.recurrent_kernel =
        kernel_gradient(memory.outputs.slice(0, 0, -1).flatten(0, 1), s.recurrent_kernel,
                        state_sum_gradients.flatten(0, 1));
  }
}

Gradients lstm_backward(const RecurrentSequence& s, const Memory& memory,
                        const Tensor& output_gradient, const variable_list& state_gradients,
                        Wanted wanted) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const int64_t steps = s.inputs.size(0), rows = s.inputs.size(1), units = s.state[0].size(1);
  Tensor later = gradient_from(state_gradients[0], s.state[0]);
  Tensor cell = gradient_from(state_gradients[1], s.state[1]);
  const Tensor sums = at::empty(memory.gates.sizes(), memory.gates.options());
  with_weight_type(s.inputs.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Steps<T> gates(memory.gates), cells(memory.cells), tanh(memory.cell_tanh),
        outputs(output_gradient), sum_gradients(sums);
    const Steps<bool> counts(s.counts);
    for (int64_t t = steps - 1; t >= 0; --t) {
      compute_step(LstmBackward<T>{units, gates[t], cells[t], tanh[t], counts[t], outputs[t],
                                   later.data_ptr<T>(), cell.data_ptr<T>(), sum_gradients[t]},
                   rows);
      if (t > 0 || wanted.state) add_product(later, sums.select(0, t), s.recurrent_kernel.t());
    }
  });
  Gradients gradients{.state = {later, cell}};
  finish(gradients, s, memory, sums, sums, wanted);
  if (wanted.bias) gradients.bias = sums.flatten(0, 1).sum(0);
  return gradients;
}

Gradients gru_backward(const RecurrentSequence& s, const Memory& memory,
                       const Tensor& output_gradient, const variable_list& state_gradients,
                       Wanted wanted) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  const int64_t steps = s.inputs.size(0), rows = s.inputs.size(1), units = s.state[0].size(1);
  Tensor later = gradient_from(state_gradients[0], s.state[0]);
  const Tensor input = at::empty({steps, rows, 3 * units}, s.inputs.options());
  const Tensor state = at::empty({steps, rows, 3 * units}, s.inputs.options());
  with_weight_type(s.inputs.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    const Steps<T> gates(memory.gates), before(memory.outputs), outputs(output_gradient),
        inputs(input), states(state);
    const Steps<bool> counts(s.counts);
    for (int64_t t = steps - 1; t >= 0; --t) {
      compute_step(GruBackward<T>{units, gates[t], before[t], counts[t], outputs[t],
                                  later.data_ptr<T>(), inputs[t], states[t]},
                   rows);
      if (t > 0 || wanted.state) add_product(later, state.select(0, t), s.recurrent_kernel.t());
    }
  });
  Gradients gradients{.state = {later}};
  finish(gradients, s, memory, input, state, wanted);
  if (wanted.bias) {
    gradients.bias = at::stack({input.flatten(0, 1).sum(0), state.flatten(0, 1).sum(0)});
  }
  return gradients;
}

// Makes gradients that can be derived again, from the differentiable form of the sequence.
Gradients differentiable_gradients(const RecurrentCell& cell, RecurrentSequence s,
                                   const Tensor& output_gradient,
                                   const variable_list& state_gradients) {
  // An input may be made of a kernel; what is derived is the sequence alone, so it gets its own.
  std::vector<Tensor*> all = {&s.inputs, &s.kernel, &s.recurrent_kernel, &s.bias};
  for (Tensor& state : s.state) all.push_back(&state);
  std::vector<size_t> places;
  variable_list arguments, results, gradients;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i]->defined() || !all[i]->requires_grad()) continue;
    *all[i] = all[i]->view_as(*all[i]);
    places.push_back(i);
    arguments.push_back(*all[i]);
  }
  const RecurrentResult result = recurrent_steps(cell, s);
  const auto use = [&](const Tensor& value, const Tensor& gradient) {
    if (!gradient.defined()) return;
    results.push_back(value);
    gradients.push_back(gradient);
  };
  use(result.outputs, output_gradient);
  for (size_t i = 0; i < s.state.size(); ++i) use(result.state[i], state_gradients[i]);
  const variable_list found = torch::autograd::grad(results, arguments, gradients,
                                                    /*retain_graph=*/true, /*create_graph=*/true,
                                                    /*allow_unused=*/true);
  Gradients made{.state = std::vector<Tensor>(s.state.size())};
  for (size_t i = 0; i < places.size(); ++i) {
    Tensor* const first[] = {&made.inputs, &made.kernel, &made.recurrent_kernel, &made.bias};
    *(places[i] < 4 ? first[places[i]] : &made.state[places[i] - 4]) = found[i];
  }
  return made;
}

// The cells the functions below compute.
template <RecurrentCell::Kind kKind>
struct Sequence : public torch::autograd::Function<Sequence<kKind>> {
  static constexpr bool kLstm = kKind == RecurrentCell::Kind::kLstm;

  // Gives the outputs of all steps, and the state after the last one.
  static variable_list forward(AutogradContext* context, const Tensor& inputs, const Tensor& kernel,
                               const Tensor& recurrent_kernel, const Tensor& state,
                               const Tensor& cell, const MaybeTensor& bias,
                               const MaybeTensor& counts) {
    RecurrentSequence s{.inputs = inputs,
                        .counts = counts.value_or(Tensor()),
                        .kernel = kernel,
                        .recurrent_kernel = recurrent_kernel,
                        .bias = bias.value_or(Tensor()),
                        .state = {state, cell}};
    const Memory memory = kLstm ? lstm_forward(s) : gru_forward(s);
    const at::AutoDispatchBelowADInplaceOrView plain;
    const Tensor outputs = memory.outputs.slice(0, 1);
    // The outputs are saved as such, so that autograd notices who writes to them.
    context->save_for_backward(
        {inputs, kernel, recurrent_kernel, state, cell, s.bias, s.counts, outputs});
    context->saved_data["gates"] = memory.gates;
    context->saved_data["outputs"] = memory.outputs;
    if (kLstm) context->saved_data["cells"] = memory.cells;
    if (kLstm) context->saved_data["cell_tanh"] = memory.cell_tanh;
    context->set_materialize_grads(false);
    variable_list results = {outputs, memory.outputs.select(0, -1).clone()};
    if (kLstm) results.push_back(memory.cells.select(0, -1).clone());
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list given) {
    const variable_list saved = context->get_saved_variables();
    const RecurrentSequence s{
        .inputs = saved[0],
        .counts = saved[6],
        .kernel = saved[1],
        .recurrent_kernel = saved[2],
        .bias = saved[5],
        .state = kLstm ? std::vector<Tensor>{saved[3], saved[4]} : std::vector<Tensor>{saved[3]}};
    const variable_list of_state(given.begin() + 1, given.end());
    Gradients made;
    if (at::GradMode::is_enabled()) {
      const RecurrentCell cell{.kind = kKind, .units = s.state[0].size(1)};
      made = differentiable_gradients(cell, s, given[0], of_state);
    } else {
      const auto memory_of = [&](const char* name) { return context->saved_data[name].toTensor(); };
      Memory memory{.gates = memory_of("gates"), .outputs = memory_of("outputs")};
      if (kLstm) memory.cells = memory_of("cells");
      if (kLstm) memory.cell_tanh = memory_of("cell_tanh");
      const Wanted wanted{.inputs = context->needs_input_grad(0),
                          .kernel = context->needs_input_grad(1),
                          .recurrent_kernel = context->needs_input_grad(2),
                          .bias = s.bias.defined() && context->needs_input_grad(5),
                          .state = context->needs_input_grad(3)};
      const Tensor of_outputs = given[0].defined() ? given[0].contiguous() : Tensor();
      made = kLstm ? lstm_backward(s, memory, of_outputs, of_state, wanted)
                   : gru_backward(s, memory, of_outputs, of_state, wanted);
    }
    return {made.inputs,
            made.kernel,
            made.recurrent_kernel,
            made.state[0],
            kLstm ? made.state[1] : Tensor(),
            made.bias,
            Tensor()};
  }
};

template <RecurrentCell::Kind kKind>
RecurrentResult apply_sequence(const RecurrentSequence& s) {
  const variable_list results =
      Sequence<kKind>::apply(s.inputs, s.kernel, s.recurrent_kernel, s.state[0], s.state.back(),
                             maybe(s.bias), maybe(s.counts));
  return {results[0], {results.begin() + 1, results.end()}};
}

bool fits(const RecurrentCell& cell, const RecurrentSequence& s) {
  const bool kind = cell.kind == RecurrentCell::Kind::kLstm || cell.has_state_bias();
  return kind && cell.activation == Activation::kTanh &&
         cell.recurrent_activation == Activation::kSigmoid && !s.input_dropout.defined() &&
         !s.state_dropout.defined() && s.inputs.is_cpu() &&
         is_weight_dtype(s.inputs.scalar_type()) &&
         !torch::jit::tracer::isTracing();  // an exported graph holds standard operations only
}

}  // namespace

RecurrentResult recurrent_sequence(const RecurrentCell& cell, const RecurrentSequence& sequence) {
  if (!fits(cell, sequence)) return recurrent_steps(cell, sequence);
  return cell.kind == RecurrentCell::Kind::kLstm
             ? apply_sequence<RecurrentCell::Kind::kLstm>(sequence)
             : apply_sequence<RecurrentCell::Kind::kGru>(sequence);
}

}  // namespace muster::inline v0_1::internal
