#include "muster/applications/gpt.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "muster/applications/internal/token_layers.h"
#include "muster/applications/internal/transformer.h"
#include "muster/layers/dropout.h"
#include "muster/layers/initializers.h"

namespace muster::inline v0_1::applications {
namespace {

using internal::Weights;

constexpr const char* kGpt = "GPT";
constexpr double kGptDeviation = 0.02;  // of GPT-2's initial weights

void check_gpt(const GPTOptions& options) {
  internal::require_positive(kGpt, "vocabulary_size", options.vocabulary_size);
  internal::require_positive(kGpt, "context", options.context);
  internal::require_positive(kGpt, "layers", options.layers);
  internal::require_heads(kGpt, options.heads, options.width);
  internal::require_rate(kGpt, "dropout", options.dropout);
}

// GPT-2's kernels are [in, out], like ours; an attention kernel holds three of them.
internal::Layout gpt_kernel_part(int64_t heads, int64_t part) {
  const internal::Layout layout = internal::heads_of_joint_kernel(heads, part);
  return [layout](const Tensor& tensor) { return layout(tensor.transpose(0, 1)); };
}

void name_gpt_block(Weights& weights, const std::string& block, int64_t number, int64_t heads) {
  const char* const program = Weights::kHuggingFace;
  const std::string module = fmt::format("h.{}.", number), attention = block + "_attention/";
  weights.layer_normalization(block + "_norm_1", {{program, module + "ln_1"}});
  weights.layer_normalization(block + "_norm_2", {{program, module + "ln_2"}});
  const char* const parts[] = {"query", "key", "value"};
  for (int64_t part = 0; part < 3; ++part) {
    weights.add(program, attention + parts[part] + "/kernel", module + "attn.c_attn.weight",
                gpt_kernel_part(heads, part));
    weights.add(program, attention + parts[part] + "/bias", module + "attn.c_attn.bias",
                internal::heads_of_joint_bias(heads, part));
  }
  const internal::Layout joined = internal::joined_heads(heads);
  weights.add(program, attention + "attention_output/kernel", module + "attn.c_proj.weight",
              [joined](const Tensor& tensor) { return joined(tensor.transpose(0, 1)); });
  weights.add(program, attention + "attention_output/bias", module + "attn.c_proj.bias");
  for (const auto& [layer, name] :
       {std::pair("_mlp_1", "mlp.c_fc"), std::pair("_mlp_2", "mlp.c_proj")}) {
    weights.add(program, block + layer + "/kernel", module + name + ".weight");
    weights.add(program, block + layer + "/bias", module + name + ".bias");
  }
}

// Tensors in the files besides the weights: masks, and the head, which is the table of tokens.
void name_rest(Weights& weights) {
  const char* const program = Weights::kHuggingFace;
  weights.prefixes(program, {"", "transformer."});
  weights.ignore(program, "*.attn.bias");
  weights.ignore(program, "*.attn.masked_bias");
  weights.ignore(program, "lm_head.weight");
  weights.tie(program, "wte.weight", "lm_head.weight");
}

}  // namespace

Functional GPT(GPTOptions options) {
  check_gpt(options);
  Weights weights(kGpt, options.weights);
  name_rest(weights);
  const Initializer initializer = initializers::random_normal(0, kGptDeviation);
  const std::string token = "token_embedding/embeddings",
                    position = "position_embedding/embeddings";
  weights.add(Weights::kHuggingFace, token, "wte.weight");
  weights.add(Weights::kHuggingFace, position, "wpe.weight");

  const SymbolicTensor input = Input({-1}, {.dtype = kInt64});
  const Layer tokens =
      internal::TiedEmbedding(options.vocabulary_size, options.width,
                              weights.initializer(token, initializer), "token_embedding");
  SymbolicTensor x = internal::PositionEmbedding(options.context, /*exactly=*/false,
                                                 weights.initializer(position, initializer),
                                                 "position_embedding")(tokens(input));
  if (options.dropout > 0) x = Dropout(options.dropout, {.name = "position_dropout"})(x);
  // The sum of what every block adds would grow with their number.
  const double last = kGptDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  const internal::TransformerStyle style{.width = options.width,
                                         .heads = options.heads,
                                         .mlp_width = 4 * options.width,
                                         .activation = activations::gelu({.approximate = true}),
                                         .dropout = options.dropout,
                                         .epsilon = options.epsilon,
                                         .causal = true,
                                         .kernel = initializer,
                                         .last_kernel = initializers::random_normal(0, last)};
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string block = fmt::format("block_{}", i);
    name_gpt_block(weights, block, i, options.heads);
    x = internal::transformer_block(x, block, style, weights);
  }
  weights.layer_normalization("norm", {{Weights::kHuggingFace, "ln_f"}});
  x = internal::layer_normalized(x, "norm", options.epsilon, weights);
  if (options.include_top) x = tokens(x);
  return weights.load(Functional({input}, {x}, options.name.empty() ? "gpt" : options.name));
}

}  // namespace muster::inline v0_1::applications
