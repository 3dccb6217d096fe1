// Attention: each step of a query gathers the steps of a value, weighted by how its key agrees with
// the query.
//
// Both layers are called with LayerInputs{.tensors = {query, value}}, or {query, value, key}: query
// [batch, T, ...], value [batch, S, ...], key as value, which it is by default. Masks tell which
// steps of each count: those of value and key get no weight, and the mask of the query is that of
// the result. With return_attention_scores they give a second tensor, the weights before dropout.
// They throw InvalidArgument for a rate outside of 0 <= dropout < 1; when called, for other tensors
// and for shapes that do not fit, which it names.
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
  bool use_scale = false;  // a weight multiplies the scores (of kConcat: the sums inside of tanh)
  ScoreMode score_mode = ScoreMode::kDot;
  bool causal = false;                   // step t sees the steps 0 ... t
  double dropout = 0;                    // of the weights, in training
  bool return_attention_scores = false;  // [batch, T, S]
  std::string name{};
};

// softmax(scores) x value: [batch, T, dim], [batch, S, width], [batch, S, dim] -> [batch, T,
// width] (Luong et al., 2015). Steps of the query that do not count give 0. Variables, of no axes
// and 1 at first: "scale" with use_scale, "concat_score_weight" with kConcat.
MUSTER_EXPORT Layer Attention(AttentionOptions options = {});

// Options of MultiHeadAttention().
struct MultiHeadAttentionOptions {
  std::optional<int64_t> value_dim{};  // of a head; by default key_dim
  double dropout = 0;                  // of the weights, in training
  bool use_bias = true;
  std::vector<int64_t> output_shape{};  // behind batch and steps; by default that of the query
  // Which axes of [batch, axes..., features] attention is over, counted from the batch: those of
  // the query see those of the value. Empty: all of them.
  std::vector<int64_t> attention_axes{};
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  // Of single variables, by their names as below, before the two above.
  std::map<std::string, Initializer> variable_initializers{};
  Regularizer kernel_regularizer{};
  Regularizer bias_regularizer{};
  // As in Keras, of what each of the four products with a kernel gives, and once more of what the
  // layer gives: the last product counts twice.
  Regularizer activity_regularizer{};
  Constraint kernel_constraint{};
  Constraint bias_constraint{};
  bool use_causal_mask = false;  // step t sees the steps 0 ... t; with one axis of attention
  bool return_attention_scores = false;  // [batch, num_heads, T, S]
  std::string name{};
};

// For each head, softmax(query' key'^T / sqrt(key_dim)) x value', where each of the three is
// x kernel + bias of the head; the heads side by side times a last kernel give the result, [batch,
// T, output_shape...] (Vaswani et al., 2017). A bool tensor behind the others, LayerInputs{.tensors
// = {query, value, attention_mask}}, is Keras's attention_mask [batch, T, S] or [batch, num_heads,
// T, S], where any axis may be 1: what is true counts. A mask of another dtype is refused, and so
// is a third tensor of the shape [batch, T, S] where the value has another width: mask.to(kBool). A
// floating one of the value's width is the key. Variables: "query/kernel" [dim, num_heads,
// key_dim], "query/bias" [num_heads, key_dim], the same of "key" and "value", and
// "attention_output/kernel" [num_heads, value_dim, output_shape...], "attention_output/bias"
// [output_shape...]. Throws InvalidArgument for sizes below 1, for attention_axes below 1 or named
// twice, and for initializers of variables it does not have.
//
// Inputs of more axes, [batch, axes..., features], differ in attention_axes at most; each place in
// the others attends for itself. The result is [batch, axes..., output_shape...], scores are
// [batch, other axes..., num_heads, axes of the query..., axes of the value...], and an
// attention_mask has these axes, with num_heads or without. They take no masks of steps.
MUSTER_EXPORT Layer MultiHeadAttention(int64_t num_heads, int64_t key_dim,
                                       MultiHeadAttentionOptions options = {});

}  // namespace muster::inline v0_1
