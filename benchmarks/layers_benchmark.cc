// Layers compared with code in bare LibTorch, one thread, alternating in one process: a training
// step of the MNIST network, and forward and backward of an LSTM, of MultiHeadAttention and of a
// residual block. Prints examples/s of both (median of the rounds, in CPU time of the thread).
#include <fmt/format.h>
#include <torch/nn/functional/activation.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "muster/layers/activation_layers.h"
#include "muster/layers/attention.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/merge.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/step_context.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster {
namespace {

constexpr int64_t kBatch = 64;
constexpr int kRounds = 15;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Store final : public VariableStore {
 public:
  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    Tensor value = spec.initializer(spec.shape, spec.dtype, derive_key(1, {id_of(spec.name)}));
    value.requires_grad_(spec.trainable);
    variables_.push_back(std::make_unique<Variable>(spec, value));
    return *variables_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : variables_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }
  // Weights and gradients as views of two flat buffers, as a strategy lays them out.
  void flatten() {
    int64_t total = 0;
    for (const auto& variable : variables_) total += variable->value().numel();
    weights = torch::empty({total});
    gradients = torch::zeros({total});
    int64_t begin = 0;
    for (const auto& variable : variables_) {
      const int64_t end = begin + variable->value().numel();
      const auto shape = variable->value().sizes().vec();
      weights.slice(0, begin, end).copy_(variable->value().detach().flatten());
      variable->value() = weights.slice(0, begin, end).view(shape).detach().requires_grad_();
      variable->value().mutable_grad() = gradients.slice(0, begin, end).view(shape).detach();
      begin = end;
    }
  }
  Tensor weights, gradients;

 private:
  std::vector<std::unique_ptr<Variable>> variables_;
};

struct Layers {
  Store store;
  StepContext context{store, 1};
  Layer model = Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(),
                            Flatten(), Dense(64, {.activation = activations::relu}), Dense(10)});
  optim::Optimizer sgd = optim::sgd({.learning_rate = 0.01});
  int64_t steps = 0;

  explicit Layers(const Tensor& images) {
    torch::NoGradGuard no_grad;
    model(images, context);
    store.flatten();
  }
  float step(const Tensor& images, const Tensor& labels) {
    context.begin_step(true, steps, 0);
    const Tensor loss = losses::sparse_categorical_crossentropy(labels, model(images, context),
                                                                {.from_logits = true});
    store.gradients.zero_();
    loss.backward();
    sgd.rule().update({store.weights, store.gradients, {}}, steps++);
    return loss.item<float>();
  }
};

// Code in LibTorch that makes use of the layouts: channels-last input, relu after pooling, flatten
// without copy.
struct Bare {
  Tensor kernel, bias, dense, dense_bias, logits, logits_bias;
  explicit Bare(const Store& store) {
    const auto copy = [&](const char* name) { return store.find(name)->value().detach().clone(); };
    kernel = copy("conv2d/kernel").permute({3, 2, 0, 1}).contiguous().requires_grad_();
    bias = copy("conv2d/bias").requires_grad_();
    dense = copy("dense/kernel").t().contiguous().requires_grad_();
    dense_bias = copy("dense/bias").requires_grad_();
    logits = copy("dense_1/kernel").t().contiguous().requires_grad_();
    logits_bias = copy("dense_1/bias").requires_grad_();
  }
  float step(const Tensor& images, const Tensor& labels) {
    const Tensor nchw = images.permute({0, 3, 1, 2});
    Tensor x = torch::relu(torch::max_pool2d(torch::conv2d(nchw, kernel, bias), 2));
    x = x.permute({0, 2, 3, 1}).flatten(1);
    x = torch::relu(torch::linear(x, dense, dense_bias));
    x = torch::linear(x, logits, logits_bias);
    const Tensor loss = torch::cross_entropy_loss(x, labels);
    loss.backward();
    torch::NoGradGuard no_grad;
    for (Tensor* p : {&kernel, &bias, &dense, &dense_bias, &logits, &logits_bias}) {
      p->add_(p->grad(), -0.01);
      p->mutable_grad() = Tensor();
    }
    return loss.item<float>();
  }
};

// Runs both in turn, `steps` times a round, and prints their times. Both return a number that shows
// they compute the same.
void compare(const char* what, int64_t batch, int steps, const std::function<float()>& ours,
             const std::function<float()>& bare) {
  std::vector<double> times[2];
  float number[2] = {0, 0};
  for (int round = 0; round < kRounds; ++round) {
    for (const int who : {round % 2, 1 - round % 2}) {
      const double begin = cpu_seconds();
      for (int i = 0; i < steps; ++i) number[who] = who == 0 ? ours() : bare();
      times[who].push_back((cpu_seconds() - begin) / steps);
    }
  }
  for (auto& each : times) std::sort(each.begin(), each.end());
  fmt::print("{}\n", what);
  for (const int who : {0, 1}) {
    const double median = times[who][kRounds / 2];
    fmt::print("  {:12} {:8.0f} examples/s  {:8.3f} ms median  {:8.3f} ms best  {:.5f}\n",
               who == 0 ? "muster" : "bare LibTorch", static_cast<double>(batch) / median,
               1e3 * median, 1e3 * times[who][0], number[who]);
  }
  fmt::print("  ratio {:.3f}\n", times[1][kRounds / 2] / times[0][kRounds / 2]);
}

void compare_mnist() {
  const Tensor images = torch::rand({kBatch, 28, 28, 1});
  const Tensor labels = torch::randint(0, 10, {kBatch}, at::kLong);
  Layers ours(images);
  Bare bare(ours.store);
  compare(
      "MNIST network, batch 64", kBatch, 40, [&] { return ours.step(images, labels); },
      [&] { return bare.step(images, labels); });
}

// A layer with variables of its own. The gradient of its output is the same in every step.
struct Trained {
  Store store;
  StepContext context{store, 1};
  int64_t steps = 0;

  void begin(Tensor& x) {
    for (const auto& variable : store.variables()) variable->value().mutable_grad() = Tensor();
    x.mutable_grad() = Tensor();
    context.begin_step(true, steps++, 0);
  }
  Tensor copy(const std::string& name) const { return store.find(name)->value().detach().clone(); }
};

// Clears the gradients of x and of weights, calls the function, and runs backward from its result.
float step_of(Tensor& x, std::vector<Tensor>& weights, const Tensor& gradient,
              const std::function<Tensor()>& forward) {
  x.mutable_grad() = Tensor();
  for (Tensor& weight : weights) weight.mutable_grad() = Tensor();
  const Tensor y = forward();
  y.backward(gradient);
  return x.grad().abs().mean().item<float>();
}

void compare_lstm() {
  constexpr int64_t kExamples = 32, kTime = 64, kUnits = 128;
  Tensor x = torch::randn({kExamples, kTime, kUnits}).requires_grad_();
  const Tensor gradient = torch::randn({kExamples, kTime, kUnits});
  Trained ours;
  const Layer layer = LSTM(kUnits, {.return_sequences = true});
  layer(x, ours.context);
  std::vector<Tensor> weights = {ours.copy("lstm/kernel").t().contiguous(),
                                 ours.copy("lstm/recurrent_kernel").t().contiguous(),
                                 ours.copy("lstm/bias"), torch::zeros({4 * kUnits})};
  for (Tensor& weight : weights) weight.requires_grad_();
  const Tensor zeros = torch::zeros({1, kExamples, kUnits});
  std::vector<Tensor> none;
  const auto mine = [&] {
    ours.begin(x);
    return step_of(x, none, gradient, [&] { return layer(x, ours.context); });
  };
  const auto bare = [&] {
    return step_of(x, weights, gradient, [&] {
      return std::get<0>(at::lstm(x, {zeros, zeros}, weights, /*has_biases=*/true, 1, 0.0,
                                  /*train=*/true, false, /*batch_first=*/true));
    });
  };
  compare("LSTM, 128 features, 128 units, 64 steps, batch 32", kExamples, 4, mine, bare);
}

void compare_attention() {
  constexpr int64_t kExamples = 16, kTime = 128, kWidth = 256, kHeads = 8;
  Tensor x = torch::randn({kExamples, kTime, kWidth}).requires_grad_();
  const Tensor gradient = torch::randn({kExamples, kTime, kWidth});
  Trained ours;
  const Layer layer = MultiHeadAttention(kHeads, kWidth / kHeads);
  layer({.tensors = {x, x}}, ours.context);
  const auto projection = [&](const char* name) {
    return ours.copy(std::string("multi_head_attention/") + name + "/kernel").flatten(1).t();
  };
  // LibTorch's takes [steps, batch, width], and the three kernels in one.
  std::vector<Tensor> weights = {
      at::cat({projection("query"), projection("key"), projection("value")}),
      torch::zeros({3 * kWidth}),
      ours.copy("multi_head_attention/attention_output/kernel").flatten(0, 1).t().contiguous(),
      torch::zeros({kWidth})};
  for (Tensor& weight : weights) weight.requires_grad_();
  Tensor steps = x.detach().transpose(0, 1).contiguous().requires_grad_();
  const Tensor gradient_of_steps = gradient.transpose(0, 1).contiguous();
  namespace F = torch::nn::functional;
  std::vector<Tensor> none;
  const auto mine = [&] {
    ours.begin(x);
    return step_of(x, none, gradient, [&] {
      return layer({.tensors = {x, x}}, ours.context).tensors[0];
    });
  };
  const auto bare = [&] {
    return step_of(steps, weights, gradient_of_steps, [&] {
      return std::get<0>(F::multi_head_attention_forward(
          steps, steps, steps,
          F::MultiheadAttentionForwardFuncOptions(kWidth, kHeads, weights[0], weights[1], {}, {},
                                                  false, 0.0, weights[2], weights[3])
              .need_weights(false)));
    });
  };
  compare("MultiHeadAttention, 8 heads, 256 wide, 128 long, batch 16", kExamples, 2, mine, bare);
}

void compare_block() {
  constexpr int64_t kExamples = 8, kSize = 56, kChannels = 64;
  Tensor x = torch::randn({kExamples, kSize, kSize, kChannels}).requires_grad_();
  const Tensor gradient = torch::randn(x.sizes());
  Trained ours;
  const Conv2DOptions same{.padding = Padding::kSame, .use_bias = false};
  const Layer branch = Sequential({Conv2D(kChannels, 3, same), BatchNormalization(), ReLU(),
                                   Conv2D(kChannels, 3, same), BatchNormalization()});
  const Layer sum = Add();
  const auto block = [&] {
    const Tensor y = branch(x, ours.context);
    return activations::relu(sum({.tensors = {x, y}}, ours.context).tensors[0]);
  };
  block();
  std::vector<Tensor> weights;
  for (const char* name : {"conv2d/kernel", "conv2d_1/kernel"}) {
    weights.push_back(
        ours.copy(name).permute({3, 2, 0, 1}).contiguous(at::MemoryFormat::ChannelsLast));
  }
  for (int i = 0; i < 2; ++i) {
    weights.push_back(torch::ones({kChannels}));
    weights.push_back(torch::zeros({kChannels}));
  }
  for (Tensor& weight : weights) weight.requires_grad_();
  const Tensor mean = torch::zeros({kChannels}), variance = torch::ones({kChannels});
  std::vector<Tensor> none;
  const auto mine = [&] {
    ours.begin(x);
    return step_of(x, none, gradient, block);
  };
  const auto normal = [&](const Tensor& y, size_t i) {
    return at::batch_norm(y, weights[i], weights[i + 1], mean, variance, /*training=*/true, 0.01,
                          1e-3, false);
  };
  const auto bare = [&] {
    return step_of(x, weights, gradient, [&] {
      const Tensor images = x.permute({0, 3, 1, 2});
      Tensor y = at::relu(normal(at::conv2d(images, weights[0], {}, 1, 1), 2));
      y = normal(at::conv2d(y, weights[1], {}, 1, 1), 4);
      return at::relu(images + y).permute({0, 2, 3, 1});
    });
  };
  compare("residual block, 3x3 with BatchNormalization, 56x56x64, batch 8", kExamples, 1, mine,
          bare);
}

int run() {
  set_threads(1);
  torch::manual_seed(1);
  compare_mnist();
  compare_lstm();
  compare_attention();
  compare_block();
  return 0;
}

}  // namespace
}  // namespace muster

int main() { return muster::run(); }
