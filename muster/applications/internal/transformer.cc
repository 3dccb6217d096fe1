#include "muster/applications/internal/transformer.h"

#include <fmt/format.h>

#include <map>

#include "muster/base/error.h"
#include "muster/layers/attention.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer_normalization.h"
#include "muster/layers/merge.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

SymbolicTensor dense(const SymbolicTensor& x, int64_t units, const std::string& name,
                     const Activation& activation, const Initializer& kernel,
                     const Weights& weights) {
  return Dense(units,
               {.activation = activation,
                .kernel_initializer = weights.initializer(name + "/kernel", kernel),
                .bias_initializer = weights.initializer(name + "/bias", initializers::zeros()),
                .name = name})(x);
}

SymbolicTensor dropped(const SymbolicTensor& x, const std::string& name, double rate) {
  return rate > 0 ? Dropout(rate, {.name = name + "_dropout"})(x) : x;
}

SymbolicTensor attended(const SymbolicTensor& x, const std::string& name,
                        const TransformerStyle& style, const Weights& weights) {
  std::map<std::string, Initializer> initializers;
  for (const std::string part : {"query", "key", "value", "attention_output"}) {
    const Initializer& kernel = part == "attention_output" ? style.last_kernel : style.kernel;
    const std::string variable = name + "/" + part;
    initializers[part + "/kernel"] = weights.initializer(variable + "/kernel", kernel);
    initializers[part + "/bias"] = weights.initializer(variable + "/bias", initializers::zeros());
  }
  return MultiHeadAttention(style.heads, style.width / style.heads,
                            {.dropout = style.dropout,
                             .variable_initializers = std::move(initializers),
                             .use_causal_mask = style.causal,
                             .name = name})(std::vector<SymbolicTensor>{x, x});
}

// Part `part` of three along axis `axis`.
Tensor third(const Tensor& tensor, int64_t axis, int64_t part) {
  const int64_t size = tensor.size(axis) / 3;
  return tensor.narrow(axis, part * size, size);
}

Tensor cut_last(const Tensor& tensor, int64_t heads) {
  Shape shape = tensor.sizes().vec();
  const int64_t size = shape.back() / heads;
  shape.back() = heads;
  shape.push_back(size);
  return tensor.reshape(shape);
}

}  // namespace

SymbolicTensor layer_normalized(const SymbolicTensor& x, const std::string& name, double epsilon,
                                const Weights& weights) {
  return LayerNormalization(
      {.epsilon = epsilon,
       .beta_initializer = weights.initializer(name + "/beta", initializers::zeros()),
       .gamma_initializer = weights.initializer(name + "/gamma", initializers::ones()),
       .name = name})(x);
}

SymbolicTensor transformer_block(const SymbolicTensor& x, const std::string& name,
                                 const TransformerStyle& style, const Weights& weights) {
  SymbolicTensor y = layer_normalized(x, name + "_norm_1", style.epsilon, weights);
  y = attended(y, name + "_attention", style, weights);
  const SymbolicTensor sum =
      Add(name + "_add_1")({x, dropped(y, name + "_attention", style.dropout)});
  y = layer_normalized(sum, name + "_norm_2", style.epsilon, weights);
  y = dense(y, style.mlp_width, name + "_mlp_1", style.activation, style.kernel, weights);
  y = dense(y, style.width, name + "_mlp_2", Activation::kLinear, style.last_kernel, weights);
  return Add(name + "_add_2")({sum, dropped(y, name + "_mlp", style.dropout)});
}

Layout heads_of_bias(int64_t heads) {
  return [heads](const Tensor& tensor) { return cut_last(tensor, heads); };
}

Layout heads_of_joint_bias(int64_t heads, int64_t part) {
  return [=](const Tensor& tensor) { return cut_last(third(tensor, 0, part), heads); };
}

Layout heads_of_kernel(int64_t heads) {
  return [heads](const Tensor& tensor) { return cut_last(tensor.transpose(0, 1), heads); };
}

Layout heads_of_joint_kernel(int64_t heads, int64_t part) {
  return
      [=](const Tensor& tensor) { return cut_last(third(tensor, 0, part).transpose(0, 1), heads); };
}

Layout joined_heads(int64_t heads) {
  return [heads](const Tensor& tensor) {
    return tensor.transpose(0, 1).reshape({heads, tensor.size(1) / heads, tensor.size(0)});
  };
}

void require_positive(const std::string& title, const char* field, int64_t value) {
  if (value >= 1) return;
  throw invalid_argument(fmt::format("{}: {} is {}", title, field, value),
                         fmt::format("{} must be at least 1", field));
}

void require_rate(const std::string& title, const char* field, double value) {
  if (value >= 0 && value < 1) return;
  throw invalid_argument(fmt::format("{}: {} is {}", title, field, value),
                         fmt::format("{} must be at least 0 and below 1", field));
}

void require_heads(const std::string& title, int64_t heads, int64_t width) {
  require_positive(title, "heads", heads);
  require_positive(title, "width", width);
  if (width % heads == 0) return;
  throw invalid_argument(fmt::format("{}: width is {}, and heads {}", title, width, heads),
                         "heads must divide the width");
}

}  // namespace muster::inline v0_1::internal
