// Training on one GPU compared with PyTorch on the same GPU: the model of MNIST and a small network
// on a table in batches of 64, ResNet-50 on images of 224x224 and a GPT, by an Estimator on
// one_device:cuda, with data that is made up. PyTorch takes part eagerly, compiled, and, if shapes
// repeat, with its CUDA graphs. All of them read their batches from memory of the CPU, and copy
// them from pinned memory.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {
namespace {

constexpr int64_t kClasses = 1000, kVocabulary = 50304;
constexpr double kLearningRate = 0.01;
constexpr uint64_t kSeed = 1;

struct Options {
  std::string json, network, device = "cuda", precision = "float32";
  int64_t batch = 64;
  std::vector<std::string> peers{"eager", "compile", "graph"};
  bool quick = false, take_part = false;
};

Layer make_network(const std::string& network) {
  if (network == "mnist") {
    return Sequential({Rescaling(1.0 / 255), Conv2D(32, 3, {.activation = activations::relu}),
                       MaxPooling2D(), Flatten(), Dense(64, {.activation = activations::relu}),
                       Dense(10)});
  }
  if (network == "table") {
    return Sequential({Dense(64, {.activation = activations::relu}),
                       Dense(64, {.activation = activations::relu}), Dense(10)});
  }
  if (network == "gpt") {
    return applications::GPT(
        {.vocabulary_size = kVocabulary, .context = 1024, .layers = 12, .heads = 12, .width = 768});
  }
  return applications::ResNet50({.input_shape = {224, 224, 3},
                                 .classes = kClasses,
                                 .classifier_activation = Activation::kLinear,
                                 .torchvision = true});
}

// Some batches' worth of examples, which come again and again: (x, labels).
Element examples_of(const Options& options) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(kSeed);
  if (options.network == "gpt") {
    const Tensor x = torch::randint(kVocabulary, {4 * options.batch, 1024}, generator, at::kLong);
    return Element::tuple({x, x.roll(-1, 1)});
  }
  if (options.network == "mnist" || options.network == "table") {
    const int64_t rows = 200 * options.batch;
    const Tensor x = options.network == "table"
                         ? torch::randn({rows, 13}, generator)
                         : torch::randint(256, {rows, 28, 28, 1}, generator, at::kFloat);
    return Element::tuple({x, torch::randint(10, {rows}, generator, at::kLong)});
  }
  const int64_t rows = 2 * options.batch;
  return Element::tuple({torch::randn({rows, 224, 224, 3}, generator),
                         torch::randint(kClasses, {rows}, generator, at::kLong)});
}

void take_part(const Options& options) {
  const ModelFn model_fn = [&](const Features& features, const Labels& labels, Mode,
                               ModelContext& context) {
    auto model = context.model(
        "net", [&] { return mixed_precision(options.precision, make_network(options.network)); });
    const Tensor loss =
        losses::sparse_categorical_crossentropy(labels, model(features), {.from_logits = true});
    return EstimatorSpec::train(
        loss, context.optimizer(optim::sgd({.learning_rate = kLearningRate, .momentum = 0.9}))
                  .minimize(loss));
  };
  const Element examples = examples_of(options);
  Estimator estimator(model_fn, {.model_dir = std::getenv("BENCH_MODEL_DIR"),
                                 .random_seed = kSeed,
                                 .save_summary_steps = 0,
                                 .save_checkpoints_steps = 0,
                                 .train_distribute = distribute::one_device(options.device)});
  estimator.train(
      [&] {
        return Dataset::from_tensor_slices(examples).repeat().batch(options.batch).prefetch();
      },
      {.hooks = {std::make_shared<StepPacerHook>()}});
}

Contestant of(const std::string& name, const Options& options, std::vector<std::string> argv) {
  argv.insert(argv.end(),
              {"--network=" + options.network, "--device=" + options.device,
               "--precision=" + options.precision, fmt::format("--batch={}", options.batch)});
  // Threads of the input, of the copies and of backward.
  return {.name = name,
          .argv = std::move(argv),
          .rows = options.batch,
          .cores = options.device == "cpu" ? 1 : 8};
}

Contestant pytorch(const std::string& name, const std::string& way, const Options& options) {
  Contestant peer = of(name, options, python_peer(name, {"gpu_torch.py", "--way=" + way}).argv);
  peer.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}};
  return peer;
}

void measure(Options options, const std::string& title, const Plan& plan) {
  std::vector<Contestant> contestants{
      of("Muster, Estimator::train", options, {"/proc/self/exe", "--take_part"})};
  const bool here = !options.peers.empty() && has_python("torch", "python3-torch");
  for (const auto& [way, name] : {std::pair{"eager", "PyTorch, eager"},
                                  {"compile", "PyTorch, compiled"},
                                  {"graph", "PyTorch, compiled to CUDA graphs"}}) {
    if (here && std::ranges::count(options.peers, way) > 0)
      contestants.push_back(pytorch(name, way, options));
  }
  const std::vector<Result> results = compare(contestants, plan);
  print_table("gpu_" + options.network, title, results, 0, options.json);
  for (size_t other = 1; other < results.size(); ++other)
    print_speed_against(results[0], results[other]);
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

void run(Options options) {
  const Plan small{.launches = 1, .pairs = options.quick ? 5 : 15, .turns = 1, .steps = 200};
  const Plan large{
      .launches = 1, .pairs = options.quick ? 3 : 8, .turns = 1, .steps = 10, .warm_up = 5};
  const auto one = [&](const char* network, const char* precision, int64_t batch, const char* title,
                       const Plan& plan) {
    if (!options.network.empty() && options.network != network) return;
    Options now = options;
    now.network = network;
    now.precision = precision;
    now.batch = batch;
    measure(now, fmt::format("One GPU: {}", title), plan);
  };
  one("mnist", "float32", 64, "the model of MNIST, batch 64", small);
  one("table", "float32", 64, "13 features, two layers of 64, batch 64", small);
  one("resnet50", "bfloat16", 256, "ResNet-50, images of 224x224, batch 256, bfloat16", large);
  one("gpt", "bfloat16", 16, "GPT of 124 M weights, 16 texts of 1,024 tokens, bfloat16", large);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  Options options;
  CLI::App app("A benchmark; ./dev bench runs all of them.");
  app.add_option("--json", options.json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", options.quick, "Few samples, to see that it works");
  app.add_option("--network", options.network, "Only this one")
      ->check(CLI::IsMember({"mnist", "table", "resnet50", "gpt"}));
  app.add_option("--peers", options.peers, "PyTorch's ways: eager, compile, graph; \"\": none")
      ->delimiter(',');
  app.add_option("--device", options.device, "\"cpu\", to see that it works without a GPU");
  app.add_option("--precision", options.precision)->group("");
  app.add_option("--batch", options.batch)->group("");
  app.add_flag("--take_part", options.take_part)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.take_part) {
      take_part(options);
    } else if (options.device != "cpu" && torch::cuda::device_count() == 0) {
      fmt::print("gpu: left out; LibTorch sees no GPU here.\n");
    } else {
      run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
