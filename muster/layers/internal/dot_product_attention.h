// Attention of several heads over steps, between its projections.
// Thread safety: pure functions.
#pragma once

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

struct AttentionResult {
  Tensor output{};   // [batch, T, heads, value_dim]
  Tensor weights{};  // [batch, heads, T, S], before dropout
};

// softmax(query key^T * scale + offset) x value for each head, of query [batch, T, heads, key_dim],
// key [batch, S, heads, key_dim], value [batch, S, heads, value_dim]. `offset` stretches to [batch,
// heads, T, S], which `dropout`, factors of the weights, is; both may be undefined. The weights are
// undefined unless `keep_weights` asks for them. `causal` says that the offset is a causal mask,
// which a GPU then need not read.
AttentionResult dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                      double scale, const Tensor& offset, const Tensor& dropout,
                                      bool keep_weights, bool causal = false);

// Its output by the operation of LibTorch that GPUs have kernels for, which keep no scores;
// undefined if this LibTorch, before 2.1, has none. Gradients of its gradients are not known
// everywhere.
Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, double scale,
                       const Tensor& offset, bool causal);

}  // namespace muster::inline v0_1::internal
