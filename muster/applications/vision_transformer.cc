#include "muster/applications/vision_transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/applications/internal/token_layers.h"
#include "muster/applications/internal/transformer.h"
#include "muster/base/error.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/initializers.h"
#include "muster/layers/lambda.h"
#include "muster/layers/reshape.h"

namespace muster::inline v0_1::applications {
namespace {

using internal::Weights;

constexpr const char* kVisionTransformer = "VisionTransformer";

void check_vision_transformer(VisionTransformerOptions& options) {
  if (options.input_shape.empty()) options.input_shape = {224, 224, 3};
  internal::require_positive(kVisionTransformer, "patch_size", options.patch_size);
  internal::require_positive(kVisionTransformer, "layers", options.layers);
  internal::require_positive(kVisionTransformer, "mlp_width", options.mlp_width);
  internal::require_heads(kVisionTransformer, options.heads, options.width);
  internal::require_rate(kVisionTransformer, "dropout", options.dropout);
  if (options.include_top)
    internal::require_positive(kVisionTransformer, "classes", options.classes);
  const Shape& shape = options.input_shape;
  const bool fits =
      shape.size() == 3 &&
      std::all_of(shape.begin(), shape.end(), [](int64_t size) { return size >= 1; }) &&
      shape[0] % options.patch_size == 0 && shape[1] % options.patch_size == 0;
  if (fits) return;
  throw invalid_argument(fmt::format("{}: input_shape is {}, and patch_size {}", kVisionTransformer,
                                     describe(shape), options.patch_size),
                         "it is {height, width, channels}; the patch divides height and width");
}

// Files hold [1, 1, width] and [1, steps, width].
Tensor without_batch(const Tensor& tensor) { return tensor.squeeze(0); }
Tensor one_vector(const Tensor& tensor) { return tensor.squeeze(0).squeeze(0); }

void name_vision_block(Weights& weights, const std::string& block, int64_t number, int64_t heads) {
  const std::string torch = fmt::format("encoder.layers.encoder_layer_{}.", number);
  const std::string face = fmt::format("encoder.layer.{}.", number);
  weights.layer_normalization(block + "_norm_1",
                              {{Weights::kTorchvision, torch + "ln_1"},
                               {Weights::kHuggingFace, face + "layernorm_before"}});
  weights.layer_normalization(
      block + "_norm_2",
      {{Weights::kTorchvision, torch + "ln_2"}, {Weights::kHuggingFace, face + "layernorm_after"}});
  const std::string attention = block + "_attention/";
  const char* const parts[] = {"query", "key", "value"};
  for (int64_t part = 0; part < 3; ++part) {
    const std::string variable = attention + parts[part];
    weights.add(Weights::kTorchvision, variable + "/kernel",
                torch + "self_attention.in_proj_weight",
                internal::heads_of_joint_kernel(heads, part));
    weights.add(Weights::kTorchvision, variable + "/bias", torch + "self_attention.in_proj_bias",
                internal::heads_of_joint_bias(heads, part));
    const std::string module = fmt::format("{}attention.attention.{}", face, parts[part]);
    weights.add(Weights::kHuggingFace, variable + "/kernel", module + ".weight",
                internal::heads_of_kernel(heads));
    weights.add(Weights::kHuggingFace, variable + "/bias", module + ".bias",
                internal::heads_of_bias(heads));
  }
  const std::string output = attention + "attention_output";
  for (const auto& [program, module] :
       {std::pair(Weights::kTorchvision, torch + "self_attention.out_proj"),
        std::pair(Weights::kHuggingFace, face + "attention.output.dense")}) {
    weights.add(program, output + "/kernel", module + ".weight", internal::joined_heads(heads));
    weights.add(program, output + "/bias", module + ".bias");
  }
  weights.dense(block + "_mlp_1", {{Weights::kTorchvision, torch + "mlp.0"},
                                   // As files of before torchvision 0.13 have it.
                                   {Weights::kTorchvision, torch + "mlp.linear_1"},
                                   {Weights::kHuggingFace, face + "intermediate.dense"}});
  weights.dense(block + "_mlp_2", {{Weights::kTorchvision, torch + "mlp.3"},
                                   {Weights::kTorchvision, torch + "mlp.linear_2"},
                                   {Weights::kHuggingFace, face + "output.dense"}});
}

}  // namespace

Functional VisionTransformer(VisionTransformerOptions options) {
  check_vision_transformer(options);
  Weights weights(kVisionTransformer, options.weights);
  const Initializer narrow = initializers::truncated_normal(0, 0.02);
  const int64_t width = options.width, patch = options.patch_size;
  const int64_t patches = options.input_shape[0] / patch * (options.input_shape[1] / patch);
  weights.prefixes(Weights::kHuggingFace, {"", "vit."});
  weights.ignore(Weights::kHuggingFace, "pooler.*");  // a layer that no classes are made of

  const SymbolicTensor input = Input(options.input_shape);
  const std::string embedding = "patch_embedding";
  weights.convolution(embedding,
                      {{Weights::kTorchvision, "conv_proj"},
                       {Weights::kHuggingFace, "embeddings.patch_embeddings.projection"}});
  SymbolicTensor x =
      Conv2D(width, patch,
             {.strides = patch,
              .kernel_initializer =
                  weights.initializer(embedding + "/kernel", initializers::lecun_normal()),
              .bias_initializer = weights.initializer(embedding + "/bias", initializers::zeros()),
              .name = embedding})(input);
  x = Reshape({patches, width}, "patches")(x);
  const std::string token = "class_token/embeddings", position = "position_embedding/embeddings";
  weights.add(Weights::kTorchvision, token, "class_token", one_vector);
  weights.add(Weights::kHuggingFace, token, "embeddings.cls_token", one_vector);
  x = internal::ClassToken(weights.initializer(token, initializers::zeros()), "class_token")(x);
  weights.add(Weights::kTorchvision, position, "encoder.pos_embedding", without_batch);
  weights.add(Weights::kHuggingFace, position, "embeddings.position_embeddings", without_batch);
  x = internal::PositionEmbedding(patches + 1, /*exactly=*/true,
                                  weights.initializer(position, narrow), "position_embedding")(x);
  if (options.dropout > 0) x = Dropout(options.dropout, {.name = "position_dropout"})(x);

  const internal::TransformerStyle style{.width = width,
                                         .heads = options.heads,
                                         .mlp_width = options.mlp_width,
                                         .activation = activations::gelu,
                                         .dropout = options.dropout,
                                         .epsilon = options.epsilon,
                                         .kernel = initializers::glorot_uniform(),
                                         .last_kernel = initializers::glorot_uniform()};
  for (int64_t i = 0; i < options.layers; ++i) {
    const std::string block = fmt::format("block_{}", i);
    name_vision_block(weights, block, i, options.heads);
    x = internal::transformer_block(x, block, style, weights);
  }
  weights.layer_normalization(
      "norm", {{Weights::kTorchvision, "encoder.ln"}, {Weights::kHuggingFace, "layernorm"}});
  x = internal::layer_normalized(x, "norm", options.epsilon, weights);
  x = Lambda([](const Tensor& steps) { return steps.select(1, 0); }, "first_step")(x);
  if (options.include_top) {
    weights.head("head");
    weights.dense("head",
                  {{Weights::kTorchvision, "heads.head"}, {Weights::kHuggingFace, "classifier"}});
    x = Dense(options.classes,
              {.activation = options.classifier_activation,
               .kernel_initializer = weights.initializer("head/kernel", initializers::zeros()),
               .bias_initializer = weights.initializer("head/bias", initializers::zeros()),
               .name = "head"})(x);
  } else {
    weights.ignore(Weights::kOwn, "head/*");
    weights.ignore(Weights::kTorchvision, "heads.*");
    weights.ignore(Weights::kHuggingFace, "classifier.*");
  }
  return weights.load(Functional({input}, {x}, options.name.empty() ? "vit" : options.name));
}

}  // namespace muster::inline v0_1::applications
