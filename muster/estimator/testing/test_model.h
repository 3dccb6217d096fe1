// A small model and data set for tests of the training layers: two dense layers on ten features.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/checkpoint/manager.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/estimator/train_and_evaluate.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/sequential.h"
#include "muster/losses/losses.h"
#include "muster/metrics/metrics.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1::testing {

inline constexpr int64_t kFeatures = 10;

// `rows` examples (x float32[10], id int64, label int64), the same ones for the same arguments.
inline Dataset examples(int64_t rows, uint64_t seed = 1) {
  Random random(derive_key(seed, {id_of("examples")}));
  Tensor x = torch::empty({rows, kFeatures});
  Tensor label = torch::empty({rows}, at::kLong);
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < kFeatures; ++j) {
      const double value = random.normal();
      x[i][j] = value;
      sum += (j % 2 == 0 ? 1 : -1) * value;
    }
    label[i] = sum > 0 ? 1 : 0;
  }
  return Dataset::from_tensor_slices(
      Element::tuple({Element::dict({{"x", x}, {"id", torch::arange(rows)}}), label}));
}

// The examples, shuffled again in every epoch; without `epochs` they have no end.
inline InputFn shuffled_batches(int64_t rows, int64_t batch, int64_t epochs = -1) {
  return [=] { return examples(rows).shuffle(rows).repeat(epochs).batch(batch); };
}

inline optim::Optimizer make_optimizer(const std::string& name) {
  if (name == "adam") return optim::adam({.learning_rate = 0.01});
  if (name == "adagrad") return optim::adagrad({.learning_rate = 0.05});
  if (name == "momentum") return optim::sgd({.learning_rate = 0.05, .momentum = 0.9});
  if (name == "clipped") return optim::clip_by_global_norm(optim::sgd({.learning_rate = 0.5}), 0.1);
  return optim::sgd({.learning_rate = 0.1});
}

inline Tensor loss_of(const Tensor& logits, const Labels& labels) {
  return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
}

// params: "optimizer" ("sgd", "momentum", "adam", "clipped"), "dropout" (rate, optional).
inline EstimatorSpec two_layers(const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
  auto model = context.model("net", [&] {
    std::vector<Layer> layers{Dense(16, {.activation = activations::relu})};
    if (context.params().contains("dropout"))
      layers.push_back(Dropout(context.params()["dropout"]));
    layers.push_back(Dense(2));
    return Sequential(layers);
  });
  Tensor logits = model(features["x"]);
  if (mode == Mode::kPredict)
    return EstimatorSpec::predict({{"class", logits.argmax(-1)}, {"logits", logits}});
  Tensor loss = loss_of(logits, labels);
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  return EstimatorSpec::train(
      loss,
      context.optimizer(make_optimizer(context.params().value("optimizer", "sgd"))).minimize(loss));
}

// Saves every 10 steps and prints little; reads only the TF_CONFIG of `environment`.
inline RunConfig quiet_config(const std::string& model_dir,
                              distribute::StrategyPtr strategy = nullptr,
                              const Environment& environment = {}) {
  return {.model_dir = model_dir,
          .save_checkpoints_steps = 10,
          .log_step_count_steps = 1000,
          .train_distribute = std::move(strategy),
          .join_timeout = Seconds(60),
          .progress_line = false,
          .environment = environment};
}

inline Checkpoint latest(const std::string& model_dir) {
  return CheckpointManager(model_dir).load_latest()->checkpoint;
}

// How far the tensors two checkpoints share by name are apart: the largest max|a - b| / max|b| of a
// tensor. Throws when the names differ.
inline double largest_difference(const Checkpoint& a, const Checkpoint& b) {
  double largest = 0;
  if (a.tensors.size() != b.tensors.size()) {
    throw std::runtime_error("the checkpoints hold different variables");
  }
  for (const auto& [name, left] : a.tensors) {
    const Tensor right = b.tensors.at(name).to(kFloat64);
    const double size = right.abs().max().item<double>();
    const double error = (left.to(kFloat64) - right).abs().max().item<double>();
    largest = std::max(largest, size > 0 ? error / size : error);
  }
  return largest;
}

inline bool same_bits(const Checkpoint& a, const Checkpoint& b) {
  if (a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, left] : a.tensors) {
    if (!left.equal(b.tensors.at(name))) return false;
  }
  return true;
}

}  // namespace muster::inline v0_1::testing
