// Attention: each step of a query collects steps of a value, weighted by the similarity of their
// keys to the query.
//
// Call both layers with LayerInputs{.tensors = {query, value}}, or {query, value, key}: query
// [batch, T, ...], value [batch, S, ...], and key like value; the default key is the value. Masks
// select the steps of each: masked steps of value and key get no weight, and the result has the
// mask of the query. With return_attention_scores the layers return a second tensor, the weights
// before dropout. They throw InvalidArgument unless 0 <= dropout < 1; when called, for other
// tensors and for shapes that do not fit, with these shapes.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// kDot: query x key. kConcat: the sum of tanh(query + key) over the features, times a weight
// (Bahdanau et al., 2015, without their kernels).
enum class ScoreMode { kDot, kConcat };

// Options of Attention().
struct AttentionOptions {
  bool use_scale = false;  // a weight multiplies the scores (kConcat: the sums inside tanh)
  ScoreMode score_mode = ScoreMode::kDot;
  bool causal = false;                   // step t sees the steps 0 ... t
  double dropout = 0;                    // of the weights, during training
  bool return_attention_scores = false;  // [batch, T, S]
  std::string name{};
};

// softmax(scores) x value: [batch, T, dim], [batch, S, width], [batch, S, dim] -> [batch, T, width]
// (Luong et al., 2015). Masked steps of the query give 0. Variables, scalars with the initial value
// 1: "scale" with use_scale, "concat_score_weight" with kConcat.
MUSTER_EXPORT Layer Attention(AttentionOptions options = {});

// Options of MultiHeadAttention().
struct MultiHeadAttentionOptions {
  std::optional<int64_t> value_dim{};  // of a head; default: key_dim
  double dropout = 0;                  // of the weights, during training
  bool use_bias = true;
  std::vector<int64_t> output_shape{};  // after batch and steps; default: that of the query
  // The axes of [batch, axes..., features] over which attention is computed, counted from the
  // batch: those of the query attend to those of the value. Empty: all.
  std::vector<int64_t> attention_axes{};
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  // For single variables, by their names as below; they take precedence over the two above.
  std::map<std::string, Initializer> variable_initializers{};
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  // As in Keras, applied to the result of each of the four products with a kernel, and again to the
  // output of the layer: the last product counts twice.
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  bool use_causal_mask = false;  // step t sees the steps 0 ... t; only with one attention axis
  bool return_attention_scores = false;  // [batch, num_heads, T, S]
  std::string name{};
};

// For each head, softmax(query' key'^T / sqrt(key_dim)) x value', where each of the three is x
// kernel + bias of the head. The concatenated heads times a last kernel give the result, [batch, T,
// output_shape...] (Vaswani et al., 2017).
//
// A bool tensor after the others, LayerInputs{.tensors = {query, value, attention_mask}}, is
// Keras's attention_mask [batch, T, S] or [batch, num_heads, T, S], where any axis may be 1; true
// means attend. A mask of another dtype is refused, and so is a third tensor of the shape [batch,
// T, S] if the value has another width: use mask.to(kBool). A floating-point tensor of the value's
// width is the key.
//
// Variables: "query/kernel" [dim, num_heads, key_dim], "query/bias" [num_heads, key_dim], the same
// for "key" and "value", and "attention_output/kernel" [num_heads, value_dim, output_shape...],
// "attention_output/bias" [output_shape...]. Throws InvalidArgument for sizes below 1, for
// attention_axes below 1 or named twice, and for initializers of unknown variables.
//
// Inputs with more axes, [batch, axes..., features], may differ only in attention_axes; attention
// is computed separately for each index of the other axes. The result is [batch, axes...,
// output_shape...], scores are [batch, other axes..., num_heads, axes of the query..., axes of the
// value...], and an attention_mask has these axes, with or without num_heads. Such inputs must not
// have step masks.
MUSTER_EXPORT Layer MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                                       MultiHeadAttentionOptions options = {});

}  // namespace muster::inline v0_1
