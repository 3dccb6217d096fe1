// A causal language model of GPT-2's structure (Radford et al., "Language Models are Unsupervised
// Multitask Learners", 2019). "muster/applications/byte_tokenizer.h" makes tokens of texts, and
// "muster/applications/generate.h" draws texts from it.
// Thread safety: functions that give immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/functional.h"

namespace muster::inline v0_1::applications {

// Options of GPT(). GPT-2's smallest has a vocabulary of 50257, a context of 1024, 12 layers, 12
// heads and a width of 768.
struct GPTOptions {
  int64_t vocabulary_size = 256;  // the bytes
  int64_t context = 256;          // the most tokens it sees
  int64_t layers = 6;
  int64_t heads = 6;        // that divide the width
  int64_t width = 384;      // of a token's vector; four times of it between a block's dense layers
  double dropout = 0;       // behind embeddings, attention and dense layers, in training
  double epsilon = 1e-5;    // of normalizations
  bool include_top = true;  // false: the vectors of the last normalization, [batch, time, width]
  // A safetensors file with initial weights, of our own names, as our checkpoints have, or of those
  // of GPT-2 in Hugging Face's transformers. A checkpoint that a run restores wins. The file is
  // read when weights are made.
  std::string weights{};
  std::string name{};  // of the Functional
};

// Gives tokens, int64 [batch, time], -> logits of the token behind each, [batch, time,
// vocabulary_size]: learned positions, normalization in front of attention and of the dense layers,
// GELU by tanh, and one table of embeddings for what comes in and what goes out. Step t sees the
// steps 0 ... t. Layers: "token_embedding", "position_embedding", "block_0_norm_1",
// "block_0_attention", "block_0_norm_2", "block_0_mlp_1", "block_0_mlp_2", "norm". Weights are
// float32, and begin as GPT-2's do. Throws InvalidArgument for options out of range, for weights
// that do not fit, and, when called, for more than `context` tokens and for one that is not in the
// vocabulary; NotFound where there is no such file, or where it knows none of its names.
MUSTER_EXPORT Functional GPT(GPTOptions options = {});

}  // namespace muster::inline v0_1::applications
