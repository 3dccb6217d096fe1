#include "benchmarks/resnet/torch_loop.h"

#include <muster/parallel.h>
#include <torch/torch.h>

#include <cstdlib>
#include <optional>

#include "benchmarks/support/step_pacer.h"

namespace muster::bench::resnet {
namespace {

namespace nn = torch::nn;

constexpr int64_t kImages = 64, kImageClasses = 1000;

nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// torchvision's BasicBlock.
struct ResidualImpl : nn::Module {
  ResidualImpl(int64_t in, int64_t out, int64_t stride)
      : body(convolution(in, out, 3, stride), nn::BatchNorm2d(out), nn::ReLU(nn::ReLUOptions(true)),
             convolution(out, out, 3, 1), nn::BatchNorm2d(out)) {
    register_module("body", body);
    if (stride == 1 && in == out) return;
    shortcut = nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out));
    register_module("shortcut", shortcut);
  }
  Tensor forward(const Tensor& x) {
    return (body->forward(x) + (shortcut.is_empty() ? x : shortcut->forward(x))).relu_();
  }
  nn::Sequential body, shortcut{nullptr};
};
TORCH_MODULE(Residual);

struct ResNet18Impl : nn::Module {
  ResNet18Impl()
      : layers(convolution(3, 64, 7, 2), nn::BatchNorm2d(64), nn::ReLU(nn::ReLUOptions(true)),
               nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1))) {
    int64_t channels = 64;
    for (const int64_t width : {64, 128, 256, 512}) {
      layers->push_back(Residual(channels, width, width == 64 ? 1 : 2));
      layers->push_back(Residual(width, width, 1));
      channels = width;
    }
    layers->push_back(nn::AdaptiveAvgPool2d(1));
    layers->push_back(nn::Flatten());
    layers->push_back(nn::Linear(channels, kImageClasses));
    register_module("layers", layers);
  }
  Tensor forward(const Tensor& x) { return layers->forward(x); }
  nn::Sequential layers;
};
TORCH_MODULE(ResNet18);

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

void train_torch_loop(const Entry& entry) {
  std::optional<SharedBarrier> barrier;
  if (entry.barrier) {
    barrier.emplace(from_environment("BENCH_BARRIER", -1), from_environment("RANK", 0),
                    from_environment("WORLD_SIZE", 1));
  }
  torch::manual_seed(1);
  ResNet18 model;
  for (Tensor& parameter : model->parameters()) {
    if (parameter.dim() == 4)
      parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  const Tensor images =
      torch::randn({kImages, 3, entry.side, entry.side}).contiguous(at::MemoryFormat::ChannelsLast);
  const Tensor labels = torch::randint(kImageClasses, {kImages}, at::kLong);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const auto train = [&](auto&& forward) {
    StepPacer pacer;
    Tensor order;
    int64_t at = kImages;
    for (double last = 0; pacer.next(last);) {
      if (at + kBatch > kImages) order = torch::randperm(kImages, at::kLong), at = 0;
      const Tensor rows = order.slice(0, at, at + kBatch);
      at += kBatch;
      sgd.zero_grad();
      const Tensor loss = torch::cross_entropy_loss(forward(images.index_select(0, rows)),
                                                    labels.index_select(0, rows));
      loss.backward();
      sgd.step();
      if (barrier) barrier->wait();
      last = loss.item<double>();
    }
  };
  if (entry.way == "libtorch") return train([&](const Tensor& x) { return model->forward(x); });
  Cluster cluster;
  auto net = cluster.data_parallel(model);
  train([&](const Tensor& x) { return net(x); });
}

}  // namespace muster::bench::resnet
