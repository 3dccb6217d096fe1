// A model with one of every layer that has code or state of its own on a device, and its training,
// for tests. Thread safety: from any thread.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "muster/estimator/testing/test_model.h"
#include "muster/layers/attention.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/mixed_precision.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

// One of every layer that has code or state of its own.
inline EstimatorSpec many_layers(const Features& features, const Labels& labels, Mode mode,
                                 ModelContext& context) {
  const Tensor& x = features["x"];
  EXPECT_EQ(x.device(), context.device());
  auto images = context.model("images", [] {
    return Sequential({Conv2D(4, {3, 3}, {.activation = activations::relu}), MaxPooling2D(),
                       Flatten(), BatchNormalization({.synchronized = true}), Dropout(0.2),
                       Dense(8)});
  });
  auto ids = context.model("ids", [] { return Embedding(64, 8, {.row_sparse = true}); });
  const Tensor seen = images(x.repeat({1, 4}).slice(1, 0, 36).reshape({-1, 6, 6, 1}));
  const Tensor logits =
      context.model("out", [] { return Dense(2); })(seen + ids(features["id"].remainder(64)));
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  return EstimatorSpec::train(
      loss,
      context.optimizer(make_optimizer(context.params().value("optimizer", "sgd"))).minimize(loss),
      {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
}

// Attention, with the parameter "precision" of mixed_precision(). It has no weights without
// gradients, such as offsets in front of a softmax or a normalization, whose noise differs.
inline EstimatorSpec attends(const Features& features, const Labels& labels, Mode,
                             ModelContext& context) {
  auto model = context.model("net", [&] {
    const SymbolicTensor x = Input({4, 8});
    const auto attention = [](bool causal) {
      return MultiHeadAttention(2, 8, {.use_bias = false, .use_causal_mask = causal});
    };
    SymbolicTensor seen = attention(true)(std::vector<SymbolicTensor>{x, x});
    seen = attention(false)(std::vector<SymbolicTensor>{seen, x});
    seen = BatchNormalization()(Dense(8, {.use_bias = false})(seen));
    return mixed_precision(context.params().value("precision", "float32"),
                           Functional({x}, {Dense(2)(Flatten()(seen))}));
  });
  const Tensor logits = model(features["x"].repeat({1, 4}).slice(1, 0, 32).reshape({-1, 4, 8}));
  const Tensor loss = loss_of(logits, labels);
  return EstimatorSpec::train(loss, context.optimizer(make_optimizer("momentum")).minimize(loss));
}

// Models that are wrong: with a label of no class, an id of no row, a tensor of another device.
inline EstimatorSpec with_labels_outside(const Features& features, const Labels& labels, Mode mode,
                                         ModelContext& context) {
  return two_layers(features, Labels(Element(Tensor(labels.tensor() + 1))), mode, context);
}

inline EstimatorSpec with_ids_outside(const Features& features, const Labels&, Mode,
                                      ModelContext& context) {
  const Tensor rows = context.model("e", [] { return Embedding(5, 2); })(features["id"]);
  const Tensor loss = rows.sum();
  return EstimatorSpec::train(loss, context.optimizer(optim::sgd()).minimize(loss));
}

inline EstimatorSpec with_a_tensor_of_the_cpu(const Features& features, const Labels& labels,
                                              Mode mode, ModelContext& context) {
  EstimatorSpec spec = two_layers(features, labels, mode, context);
  spec.loss = spec.loss + torch::ones({features.rows()}).mul(features["x"].sum(1)).sum();
  return spec;
}

// Some epochs of 53 examples: a ragged last batch, and a replica without data in it.
inline Checkpoint train(const std::string& model_dir, const distribute::StrategyPtr& strategy,
                        const ModelFn& model_fn, const nlohmann::json& params,
                        int64_t max_steps = 1000) {
  RunConfig config = quiet_config(model_dir, strategy);
  config.accumulate_steps = params.value("accumulate", 1);
  Estimator(model_fn, config, params)
      .train([] { return examples(53).shuffle(53).repeat(2).global_batch(12); },
             {.max_steps = max_steps});
  return latest(model_dir);
}

}  // namespace muster::inline v0_1::testing
