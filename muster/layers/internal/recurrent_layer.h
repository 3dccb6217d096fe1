// The common implementation of SimpleRNN, LSTM, GRU and their cells; Bidirectional uses two of it.
// Thread safety: immutable values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/layers/initializers.h"
#include "muster/layers/internal/lstm_gru_steps.h"
#include "muster/layers/internal/sequence_reader.h"
#include "muster/layers/layer.h"
#include "muster/layers/recurrent_cell.h"

namespace muster::inline v0_1::internal {

// A recurrent layer in all but its name.
struct RecurrentSpec {
  RecurrentCell cell{};
  bool use_bias = true;
  Initializer kernel_initializer{}, recurrent_initializer{}, bias_initializer{};
  Regularizer kernel_regularizer{}, recurrent_regularizer{}, bias_regularizer{};
  Constraint kernel_constraint{}, recurrent_constraint{}, bias_constraint{};
  double dropout = 0;
  double recurrent_dropout = 0;
  SequenceOptions sequence{};  // of a layer
};

// The variables of a recurrent layer: kSlots slots of a layer, from `first_slot`, with a prefix to
// their names.
struct RecurrentVariables {
  static constexpr int kWeights = 3;
  static constexpr int kSlots = kWeights + 2;  // and the state that is kept

  const LayerIdentity& layer;
  int first_slot = 0;
  std::string prefix{};
  const LayerIdentity* reader = nullptr;  // the layer that reads the sequence, if it is another one
};

// Computes a recurrent layer, as recurrent.h defines it.
LayerOutputs call_recurrent(const RecurrentSpec& spec, const LayerInputs& inputs,
                            CallContext& context, const RecurrentVariables& variables);

class BuiltInCellImpl final : public RNNCellImpl {
 public:
  BuiltInCellImpl(const char* class_name, RecurrentSpec spec, std::string name)
      : RNNCellImpl(class_name, std::move(name)), spec_(std::move(spec)) {}

  std::vector<int64_t> state_sizes() const override { return spec_.cell.state_sizes(); }
  Step begin(const Tensor& first, CallContext& context) const override;

  const RecurrentSpec& spec() const { return spec_; }

  LayerPrecision precision() const override { return LayerPrecision::kWidened; }

 private:
  RecurrentSpec spec_;
};

class RecurrentImpl final : public LayerImpl {
 public:
  RecurrentImpl(const char* class_name, RecurrentSpec spec, std::string name)
      : LayerImpl(class_name, std::move(name)), spec_(std::move(spec)) {}

  // Reads with a cell that has variables of its own. REQUIRES: it is a BuiltInCellImpl.
  RecurrentImpl(const Layer& cell, SequenceOptions sequence, std::string name);

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override;

  const RecurrentSpec& spec() const { return spec_; }

 private:
  RecurrentSpec spec_;
  std::optional<Layer> cell_;
};

}  // namespace muster::inline v0_1::internal
