// Nets as LibTorch's users write them, and runs of an Estimator that train them; for tests of
// <muster/torch.h>. Thread safety: as the called functions.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/checkpoint/manager.h"
#include "muster/distribute/variable_table.h"
#include "muster/muster.h"
#include "muster/torch.h"
#include "muster/train/model_steps.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::torch_nets {

using nlohmann::json;

inline constexpr int64_t kFeatures = 6, kHidden = 8, kClasses = 3;

// --- models, written as LibTorch's users write them ----------------------------------------------

struct Plain : torch::nn::Module {
  Plain() {
    fc1 = register_module("fc1", torch::nn::Linear(kFeatures, kHidden));
    fc2 = register_module("fc2", torch::nn::Linear(kHidden, kClasses));
  }
  Tensor forward(const Tensor& x) { return fc2(torch::relu(fc1(x))); }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

struct Normed : torch::nn::Module {
  explicit Normed(double rate = 0)
      : body(torch::nn::Linear(kFeatures, kHidden), torch::nn::BatchNorm1d(kHidden),
             torch::nn::Functional(torch::relu), torch::nn::Dropout(rate)) {
    register_module("body", body);
    head = register_module("head", torch::nn::Linear(kHidden, kClasses));
  }
  Tensor forward(const Tensor& x) { return head(body->forward(x)); }
  torch::nn::Sequential body;
  torch::nn::Linear head{nullptr};
};

// --- data and model functions --------------------------------------------------------------------

struct Rows {
  Tensor x, label;
};

inline Rows rows(int64_t count) {
  Random random(derive_key(3, {id_of("rows")}));
  Tensor x = torch::empty({count, kFeatures});
  float* numbers = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) numbers[i] = static_cast<float>(random.normal());
  return {x, x.slice(1, 0, kClasses).argmax(-1)};
}

inline Dataset dataset(int64_t count) {
  const Rows all = rows(count);
  return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"x", all.x}}), all.label}));
}

inline EstimatorSpec spec_of(const Tensor& logits, const Labels& labels, Mode mode,
                             ModelContext& context) {
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  const optim::Optimizer optimizer = context.params().value("adam", false)
                                         ? optim::adam({.learning_rate = 0.01})
                                         : optim::sgd({.learning_rate = 0.1});
  return EstimatorSpec::train(loss, context.optimizer(optimizer).minimize(loss));
}

// The model function of a net that `torch_module` gives.
template <typename Net, typename... Args>
ModelFn model_of(Args... args) {
  return
      [args...](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        auto net = torch_module<Net>(context, "net", args...);
        return spec_of(net->forward(features["x"]), labels, mode, context);
      };
}

inline RunConfig config_of(const std::string& model_dir, std::optional<Environment> environment,
                           uint64_t seed = 0) {
  return {.model_dir = model_dir,
          .random_seed = seed,
          .save_checkpoints_steps = 10,
          .log_step_count_steps = 1000,
          .train_distribute = distribute::multi_worker_mirrored(),
          .join_timeout = Seconds(60),
          .progress_line = false,
          .environment = environment ? *environment : Environment()};
}

struct Training {
  ModelFn model{};
  int workers = 1;
  int64_t max_steps = 20;
  InputFn input = [] { return dataset(60).shuffle(60).repeat().global_batch(12); };
  json params = json::object();
  uint64_t seed = 0;
};

inline Checkpoint train(const std::string& model_dir, const Training& training) {
  const auto work = [&](std::optional<Environment> environment) {
    Estimator(training.model, config_of(model_dir, std::move(environment), training.seed),
              training.params)
        .train(training.input, {.max_steps = training.max_steps});
  };
  if (training.workers == 1) {
    work(std::nullopt);
  } else {
    const testing::LocalCluster cluster(training.workers);
    testing::run_ranks(training.workers, [&](int rank) { work(cluster.environment(rank)); });
  }
  return CheckpointManager(model_dir).load_latest()->checkpoint;
}

inline void expect_same_bits(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors)
    EXPECT_TRUE(tensor.equal(b.tensors.at(name))) << name;
}

inline void expect_close(const Tensor& a, const Tensor& b, double tolerance,
                         const std::string& what) {
  EXPECT_TRUE(torch::allclose(a, b, tolerance, tolerance)) << what << "\n" << a << "\n" << b;
}

inline std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors) names.push_back(name);
  return names;
}

// A context by itself, for tests that need no run.
struct Alone {
  explicit Alone(Mode mode = Mode::kTrain, uint64_t seed = 1)
      : variables(seed), context(mode, variables, seed, params) {
    internal::begin_step(context, 0, 0);
  }
  json params = json::object();
  distribute::VariableTable variables;
  ModelContext context;
};

}  // namespace muster::torch_nets
