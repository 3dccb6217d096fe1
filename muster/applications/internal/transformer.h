// The blocks that transformers repeat: normalize, attend, add; normalize, two dense layers, add.
// Thread safety: belongs to the thread that builds the network.
#pragma once

#include <cstdint>
#include <string>

#include "muster/applications/internal/weights.h"
#include "muster/layers/activations.h"
#include "muster/layers/symbolic_tensor.h"

namespace muster::inline v0_1::internal {

// The settings that all blocks of a transformer share.
struct TransformerStyle {
  int64_t width = 0;
  int64_t heads = 1;      // that divide the width
  int64_t mlp_width = 0;  // between the two dense layers
  Activation activation{};
  double dropout = 0;
  double epsilon = 1e-5;
  bool causal = false;
  Initializer kernel{};
  Initializer last_kernel{};  // of layers whose result is added to the block's input
};

// Adds a block whose layers are named "<name>_norm_1", "<name>_attention", "<name>_norm_2",
// "<name>_mlp_1", "<name>_mlp_2".
SymbolicTensor transformer_block(const SymbolicTensor& x, const std::string& name,
                                 const TransformerStyle& style, const Weights& weights);

// Adds a LayerNormalization.
SymbolicTensor layer_normalized(const SymbolicTensor& x, const std::string& name, double epsilon,
                                const Weights& weights);

// The layouts of attention: from [heads * size] they make [heads, size].
Layout heads_of_bias(int64_t heads);
// Part `part` of three of them.
Layout heads_of_joint_bias(int64_t heads, int64_t part);
// [heads * size, in] -> [in, heads, size], and part `part` of three.
Layout heads_of_kernel(int64_t heads);
Layout heads_of_joint_kernel(int64_t heads, int64_t part);
// [out, heads * size] -> [heads, size, out].
Layout joined_heads(int64_t heads);

// Throws InvalidArgument for a value below 1, for a rate outside of [0, 1), and for heads that do
// not divide the width.
void require_positive(const std::string& title, const char* field, int64_t value);
void require_rate(const std::string& title, const char* field, double value);
void require_heads(const std::string& title, int64_t heads, int64_t width);

}  // namespace muster::inline v0_1::internal
