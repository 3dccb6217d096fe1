// Loops over steps that compute an LSTM or a GRU as ONNX defines it. For sources alone. Thread
// safety: immutable values.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "muster/onnx/internal/call.h"
#include "muster/onnx/internal/observed_graph.h"
#include "muster/onnx/internal/recurrent_node.h"

namespace muster::inline v0_1::onnx::internal {

struct RecurrentLoop {
  RecurrentNode node{};                       // without the names of its inputs
  const torch::jit::Value* input = nullptr;   // [steps, batch, features]
  const torch::jit::Value* hidden = nullptr;  // [batch, units]; nullptr is zero
  const torch::jit::Value* cell = nullptr;
  const torch::jit::Value* lengths = nullptr;  // integers [batch]; nullptr: all steps count
  const torch::jit::Value* counts = nullptr;   // the same as bool [steps, batch]
  const torch::jit::Value* outputs = nullptr;  // the list of the outputs; nullptr if unused
  std::vector<bool> is_cell{};                 // for each result of the loop
};

struct RecurrentLoops {
  std::unordered_map<const torch::jit::Node*, RecurrentLoop> loops{};
  // Nodes whose results nothing else takes: the products of the inputs.
  std::unordered_set<const torch::jit::Node*> absorbed{};
};

// A loop whose layer has options that ONNX's operations lack is not among them: another function
// than sigmoid, tanh, relu, hard_sigmoid and softsign, a mask that is not made of lengths, a dtype
// other than float32.
RecurrentLoops find_recurrent_loops(const ObservedGraph& observed);

// Writes the node of a loop, and says what the results of the loop are. Returns the name of the
// outputs [steps, batch, units].
std::string write_recurrent_loop(const RecurrentLoop& loop, Call& call);

}  // namespace muster::inline v0_1::onnx::internal
