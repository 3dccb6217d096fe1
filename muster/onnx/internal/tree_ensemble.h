// Boosted trees as one operation of ai.onnx.ml: the TorchScript graph of an export takes an example
// down all trees at once, which ONNX runtimes do better. For sources alone. Thread safety: pure
// functions.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>

#include "muster/onnx/internal/graph_writer.h"
#include "muster/onnx/internal/observed_graph.h"

namespace muster::inline v0_1::onnx::internal {

// The place of boosted trees in a graph.
struct TreesInGraph {
  const torch::jit::Value* matrix = nullptr;  // [rows, features]
  const torch::jit::Node* last = nullptr;     // makes the logits: float32 [rows, outputs]
};

// Nothing if the graph has no boosted trees, or none with a split.
std::optional<TreesInGraph> find_trees(const ObservedGraph& observed);

// Adds TreeEnsembleRegressor with the weights "boosted_trees/..." of the graph; returns the name of
// the logits.
std::string add_trees(const ObservedGraph& observed, const std::string& matrix,
                      GraphWriter& writer);

}  // namespace muster::inline v0_1::onnx::internal
