#include "muster/layers/recurrent_cell.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/layers/internal/recurrent_layer.h"
#include "muster/layers/internal/recurrent_state.h"
#include "muster/layers/internal/traced_steps.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// The cell that `layer` is. It lives as long as the layer.
const RNNCellImpl& cell_of(const Layer& layer, const char* asked_by) {
  const auto* cell = dynamic_cast<const RNNCellImpl*>(&layer.impl());
  if (cell == nullptr) {
    throw invalid_argument(
        fmt::format("{}: cell is a layer \"{}\"", asked_by, layer.impl().identity().class_name),
        "a cell is a SimpleRNNCell, an LSTMCell, a GRUCell, StackedRNNCells, or one of your own, "
        "an RNNCellImpl");
  }
  return *cell;
}

class StackedCellsImpl final : public RNNCellImpl {
 public:
  StackedCellsImpl(const std::vector<Layer>& cells, std::string name)
      : RNNCellImpl("stacked_rnn_cells", std::move(name)), cells_(cells) {
    for (const Layer& cell : cells_) {
      for (const int64_t size : cell_of(cell, "StackedRNNCells").state_sizes())
        sizes_.push_back(size);
    }
  }

  std::vector<int64_t> state_sizes() const override { return sizes_; }

  // A cell's first input is known when those below have made theirs.
  Step begin(const Tensor&, CallContext& context) const override {
    return [this, &context, steps = std::vector<Step>()](const Tensor& input,
                                                         const std::vector<Tensor>& state) mutable {
      Result result{.output = input, .state = {}};
      auto mine = state.begin();
      for (size_t i = 0; i < cells_.size(); ++i) {
        const RNNCellImpl& cell = cell_of(cells_[i], "StackedRNNCells");
        if (steps.size() == i) steps.push_back(cell.begin(result.output, context));
        const auto next = mine + static_cast<std::ptrdiff_t>(cell.state_sizes().size());
        Result made = steps[i](result.output, {mine, next});
        result.output = std::move(made.output);
        result.state.insert(result.state.end(), made.state.begin(), made.state.end());
        mine = next;
      }
      return result;
    };
  }

 private:
  std::vector<Layer> cells_;
  std::vector<int64_t> sizes_;
};

// Reads a sequence with any cell, step by step.
class RNNImpl final : public LayerImpl {
 public:
  RNNImpl(const Layer& cell, internal::SequenceOptions options, std::string name)
      : LayerImpl("rnn", std::move(name)),
        cell_(cell),
        sizes_(cell_of(cell, "RNN").state_sizes()),
        options_(std::move(options)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    context.name_of(identity());
    return internal::read_sequence(
        options_, {.layer = identity(), .state_sizes = sizes_}, inputs, context,
        [&](const internal::OrderedSequence& sequence) { return read(sequence, context); });
  }

 private:
  internal::SequenceResult read(const internal::OrderedSequence& sequence,
                                CallContext& context) const {
    const RNNCellImpl::Step step =
        cell_of(cell_, "RNN").begin(sequence.steps.select(0, 0), context);
    std::vector<Tensor> sequences{sequence.steps}, state = sequence.state;
    const bool masked = sequence.counts.defined();
    if (masked) {
      sequences.push_back(sequence.counts);
      // The output of the step before, which a step that does not count repeats: 0 before the
      // first.
      state.push_back(at::zeros({}, sequence.steps.options()));
    }
    internal::StepsResult result = internal::compute_steps(
        sequences, state,
        [&](const std::vector<Tensor>& slices, const std::vector<Tensor>& before) {
          std::vector<Tensor> own(before.begin(), before.end() - (masked ? 1 : 0));
          RNNCellImpl::Result next = step(slices[0], own);
          internal::check_state(context, cell_.impl().identity(), next.state, sizes_,
                                slices[0].size(0), slices[0]);
          if (masked) {
            const auto keep = [&](Tensor& now, const Tensor& earlier) {
              Tensor fits = slices[1];
              while (fits.dim() < now.dim()) fits = fits.unsqueeze(-1);
              now = at::where(fits, now, earlier);
            };
            keep(next.output, before.back());
            for (size_t i = 0; i < own.size(); ++i) keep(next.state[i], own[i]);
          }
          std::vector<Tensor> made{next.output};
          made.insert(made.end(), next.state.begin(), next.state.end());
          if (masked) made.push_back(next.output);
          return made;
        });
    if (masked) result.state.pop_back();
    return {.outputs = std::move(result.outputs),
            .last = std::move(result.last),
            .state = std::move(result.state)};
  }

  Layer cell_;
  std::vector<int64_t> sizes_;
  internal::SequenceOptions options_;
};

}  // namespace

LayerOutputs RNNCellImpl::call(const LayerInputs& inputs, CallContext& context) const {
  if (inputs.tensors.size() != 1) {
    throw invalid_argument(fmt::format("layer {}: expected one tensor, was given {}",
                                       context.name_of(identity()), inputs.tensors.size()));
  }
  const Tensor& input = inputs.tensors[0];
  internal::check_dtype(context, identity(), input);
  if (input.dim() < 2) {
    internal::refuse_input(context, identity(), "[batch, features]", input,
                           "a cell computes one step; RNN() reads sequences with it");
  }
  std::vector<Tensor> state = inputs.state;
  if (state.empty()) {
    state = internal::zero_state(state_sizes(), input.size(0), input);
  } else {
    internal::check_state(context, identity(), state, state_sizes(), input.size(0), input);
  }
  Result result = begin(input, context)(input, state);
  return {.tensors = {std::move(result.output)}, .state = std::move(result.state)};
}

Layer StackedRNNCells(const std::vector<Layer>& cells, std::string name) {
  if (cells.empty()) {
    throw invalid_argument("StackedRNNCells: cells is an empty list", "it must have at least one");
  }
  return Layer(std::make_shared<StackedCellsImpl>(cells, std::move(name)));
}

Layer RNN(const Layer& cell, RNNOptions options) {
  internal::SequenceOptions sequence = internal::sequence_options(options);
  if (dynamic_cast<const internal::BuiltInCellImpl*>(&cell.impl()) != nullptr) {
    return Layer(std::make_shared<internal::RecurrentImpl>(cell, std::move(sequence),
                                                           std::move(options.name)));
  }
  return Layer(std::make_shared<RNNImpl>(cell, std::move(sequence), std::move(options.name)));
}

}  // namespace muster::inline v0_1
