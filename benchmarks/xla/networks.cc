#include "benchmarks/xla/networks.h"

#include <muster/applications/gpt.h>
#include <muster/applications/resnet.h>
#include <muster/core.h>
#include <torch/torch.h>

#include <utility>

#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kExamples = 64, kVocabulary = 256, kTime = 128, kSide = 64;

Layer make_network(const XlaNetwork& network) {
  if (network.name == "gpt") {
    return applications::GPT(
        {.vocabulary_size = kVocabulary, .context = kTime, .layers = 1, .heads = 4, .width = 256});
  }
  if (network.name == "resnet18") {
    return applications::ResNet18({.input_shape = {kSide, kSide, 3},
                                   .classes = network.classes,
                                   .classifier_activation = Activation::kLinear,
                                   .torchvision = true});
  }
  return Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(), Flatten(),
                     Dense(64, {.activation = activations::relu}), Dense(10)});
}

// Random batches without end: (x, labels).
Dataset batches(const XlaNetwork& network) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const bool gpt = network.name == "gpt";
  const int64_t side = network.name == "mnist" ? 28 : kSide;
  const Tensor x =
      gpt ? torch::randint(kVocabulary, {kExamples, kTime}, generator, at::kLong)
          : torch::randn({kExamples, side, side, network.name == "mnist" ? 1 : 3}, generator);
  const Tensor labels =
      gpt ? x.roll(-1, 1) : torch::randint(network.classes, {kExamples}, generator, at::kLong);
  return Dataset::from_tensor_slices(Element::tuple({x, labels}))
      .shuffle(kExamples)
      .repeat()
      .batch(network.batch);
}

}  // namespace

const std::vector<XlaNetwork>& xla_networks() {
  static const std::vector<XlaNetwork> all{
      {"mnist", "a convolutional network, images of 28x28, batch 64", 64, 10},
      {"resnet18", "ResNet-18, images of 64x64, batch 16", 16, 1000},
      {"gpt", "GPT of one block, width 256, 8 texts of 128 bytes", 8, kVocabulary}};
  return all;
}

void train_network(const XlaNetwork& network, const std::string& device,
                   const std::string& model_dir, std::shared_ptr<Hook> hook) {
  set_threads(1);
  const ModelFn model_fn = [&](const Features& features, const Labels& labels, Mode,
                               ModelContext& context) {
    auto model = context.model("net", [&] { return make_network(network); });
    const Tensor loss =
        losses::sparse_categorical_crossentropy(labels, model(features), {.from_logits = true});
    auto sgd = context.optimizer(optim::sgd({.learning_rate = 0.01, .momentum = 0.9}));
    return EstimatorSpec::train(loss, sgd.minimize(loss));
  };
  Estimator estimator(model_fn, {.model_dir = model_dir,
                                 .random_seed = 1,
                                 .save_checkpoints_steps = 0,
                                 .train_distribute = distribute::one_device(device)});
  estimator.train([&] { return batches(network); }, {.hooks = {std::move(hook)}});
}

}  // namespace muster::bench
