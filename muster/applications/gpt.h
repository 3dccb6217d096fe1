// A causal language model of GPT-2's structure (Radford et al., "Language Models are Unsupervised
// Multitask Learners", 2019). "muster/applications/byte_tokenizer.h" makes tokens of texts, and
// "muster/applications/generate.h" draws texts from it.
// Thread safety: functions that return immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of GPT(). The smallest GPT-2 has a vocabulary of 50257, a context of 1024, 12 layers, 12
// heads and a width of 768.
struct GPTOptions {
  int64_t vocabulary_size = 256;  // the bytes
  int64_t context = 256;          // the largest number of tokens it sees
  int64_t layers = 6;
  int64_t heads = 6;        // must divide the width
  int64_t width = 384;      // of a token's vector; a block's dense layers have 4 * width between
                            // them
  double dropout = 0;       // after embeddings, attention and dense layers, in training
  double epsilon = 1e-5;    // of normalizations
  bool include_top = true;  // false: returns the last normalization, [batch, time, width]
  // A safetensors file with initial weights, with our own names, as in our checkpoints, or with
  // those of GPT-2 in Hugging Face's transformers. The file is read when weights are created; a
  // checkpoint that a run restores overwrites them.
  std::string weights{};
  std::string name{};  // of the Functional
};

// Maps tokens, int64 [batch, time], -> logits of the next token at each step, [batch, time,
// vocabulary_size]. It has learned positions, normalization before attention and before the dense
// layers, GELU by tanh, and one table of embeddings for inputs and outputs. Step t sees the steps 0
// ... t. Layers: "token_embedding", "position_embedding", "block_0_norm_1", "block_0_attention",
// "block_0_norm_2", "block_0_mlp_1", "block_0_mlp_2", "norm". Weights are float32, with GPT-2's
// initial values. Throws InvalidArgument for options out of range, for weights that do not fit,
// and, when called, for more than `context` tokens and for a token that is not in the vocabulary;
// NotFound for a missing weights file, or one without any of the model's names.
MUSTER_EXPORT Functional GPT(GPTOptions options = {});

}  // namespace muster::inline v0_1::applications
