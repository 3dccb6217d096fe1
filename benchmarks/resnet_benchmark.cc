// Training examples a second with applications, on one core: ResNet-50 and ResNet-18 on images of
// 128x128 in batches of 16, and a small GPT on 8 texts of 128 bytes, by SGD with momentum. By an
// Estimator and by keras::Model::fit(), beside PyTorch with torchvision's models in channels-last
// memory. Then two workers with ResNet-18, beside two that only meet at a barrier.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/turns_hook.h"
#include "muster/base/error.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kExamples = 64, kSide = 128, kBatch = 16, kClasses = 1000;
constexpr int64_t kTexts = 8, kTime = 128, kVocabulary = 256;
constexpr double kLearningRate = 0.01, kMomentum = 0.9;
constexpr uint64_t kSeed = 1;

struct Options {
  std::string json, model;
  bool quick = false;
  bool fit = false;      // of a contestant: by a Keras model
  bool barrier = false;  // likewise: it meets others, and exchanges nothing with them
};

bool is_gpt(const Options& options) { return options.model == "gpt"; }

Layer make_model(const std::string& name) {
  if (name == "gpt") {
    return applications::GPT(
        {.vocabulary_size = kVocabulary, .context = kTime, .layers = 4, .heads = 4, .width = 256});
  }
  const applications::ResNetOptions options{.input_shape = {kSide, kSide, 3},
                                            .classes = kClasses,
                                            .classifier_activation = Activation::kLinear,
                                            .torchvision = true};
  return name == "resnet18" ? applications::ResNet18(options) : applications::ResNet50(options);
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode,
                       ModelContext& context) {
  const auto name = context.param<std::string>("model");
  auto model = context.model("net", [&] { return make_model(name); });
  const Tensor logits = model(features["x"]);
  const Tensor loss =
      losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  auto optimizer =
      context.optimizer(optim::sgd({.learning_rate = kLearningRate, .momentum = kMomentum}));
  return EstimatorSpec::train(loss, optimizer.minimize(loss));
}

// The batches of a model, without end.
Dataset batches(bool gpt) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const Tensor x = gpt ? torch::randint(kVocabulary, {kExamples, kTime}, generator, at::kLong)
                       : torch::randn({kExamples, kSide, kSide, 3}, generator);
  const Tensor labels =
      gpt ? x.roll(-1, 1) : torch::randint(kClasses, {kExamples}, generator, at::kLong);
  return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"x", x}}), labels}))
      .shuffle(kExamples)
      .repeat()
      .batch(gpt ? kTexts : kBatch);
}

void train(const Options& options) {
  RunConfig config{.model_dir = std::getenv("BENCH_MODEL_DIR"),
                   .random_seed = kSeed,
                   .save_checkpoints_steps = 0};
  const auto hooks = turns_hooks(options.barrier, config);
  Estimator estimator(model_fn, config, {{"model", options.model}});
  estimator.train([&] { return batches(is_gpt(options)); }, {.hooks = hooks});
}

struct TurnsCallback : keras::Callback {
  void on_train_batch_begin(int64_t batch) override {
    if (batch == 0) turns.next();
  }
  void on_train_batch_end(const keras::BatchInfo& info) override {
    if (!turns.next(info.loss)) model().stop_training();
  }
  Turns turns;
};

void fit(const Options& options) {
  keras::Model model(make_model(options.model), {.seed = kSeed});
  model.compile({.optimizer = optim::sgd({.learning_rate = kLearningRate, .momentum = kMomentum}),
                 .loss = keras::SparseCategoricalCrossentropy({.from_logits = true})});
  constexpr int64_t kNoEnd = 1'000'000;
  const Dataset data = batches(is_gpt(options)).map([](const Element& batch) {
    return Element::tuple({batch.part(0).at("x"), batch.part(1)});
  });
  model.fit(data, {.steps_per_epoch = kNoEnd,
                   .callbacks = {std::make_shared<TurnsCallback>()},
                   .verbose = keras::Verbose::kSilent});
}

void run_workers(const Plan& plan, const std::string& json) {
  const auto self = [](const char* name, std::vector<std::string> flags) {
    Contestant contestant{.name = name, .argv = {"/proc/self/exe", "--take_part"}, .workers = 2};
    contestant.argv.insert(contestant.argv.end(), flags.begin(), flags.end());
    contestant.rows = 2 * kBatch;
    return contestant;
  };
  const std::vector<Result> results =
      compare({self("ResNet-18, a barrier only", {"--barrier", "--model=resnet18"}),
               self("ResNet-18, two workers", {"--model=resnet18"})},
              plan);
  print_table("resnet_workers",
              fmt::format("Two workers of one thread: ResNet-18, images of {0}x{0}, batch {1} each",
                          kSide, kBatch),
              results, 0, json);
  print_speed_against(results[1], results[0]);
}

void run(const Options& options) {
  // A step takes seconds, and the steps in front of a turn as long.
  const Plan plan = options.quick
                        ? Plan{.launches = 1, .pairs = 4, .turns = 1, .steps = 3, .warm_up = 1}
                        : Plan{.launches = 2, .pairs = 6, .turns = 1, .steps = 10, .warm_up = 2};
  const bool pytorch = has_python("torchvision", "python3-torchvision");
  const std::pair<const char*, std::string> models[] = {
      {"resnet50", fmt::format("ResNet-50, images of {0}x{0}, batch {1}", kSide, kBatch)},
      {"resnet18", fmt::format("ResNet-18, images of {0}x{0}, batch {1}", kSide, kBatch)},
      {"gpt", fmt::format("GPT of 4 blocks, width 256, {} texts of {} bytes", kTexts, kTime)}};
  for (const auto& [name, title] : models) {
    if (!options.model.empty() && options.model != name) continue;
    const std::string model = fmt::format("--model={}", name);
    std::vector<Contestant> contestants{
        {.name = "Muster, Estimator::train", .argv = {"/proc/self/exe", "--take_part", model}},
        {.name = "Muster, keras::Model::fit",
         .argv = {"/proc/self/exe", "--take_part", "--fit", model}}};
    if (pytorch)
      contestants.push_back(python_peer("PyTorch, channels last", {"resnet_torch.py", model}));
    for (Contestant& contestant : contestants)
      contestant.rows = std::string_view(name) == "gpt" ? kTexts : kBatch;
    const std::vector<Result> results = compare(contestants, plan);
    print_table(fmt::format("resnet_{}", name), fmt::format("One core: {}", title), results,
                results.size() - 1, options.json);
    for (size_t other = 1; other < results.size(); ++other)
      print_speed_against(results[0], results[other]);
  }
  if (options.model.empty() || options.model == "workers") run_workers(plan, options.json);
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Options options;
  bool take_part = false;
  CLI::App app("A benchmark; ./dev bench runs all of them.");
  app.add_option("--json", options.json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", options.quick, "Few samples, to see that it works");
  app.add_option("--model", options.model, "Only this one: resnet50, resnet18, gpt or workers");
  app.add_flag("--take_part", take_part)->group("");
  app.add_flag("--fit", options.fit)->group("");
  app.add_flag("--barrier", options.barrier)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    if (take_part) {
      muster::set_threads(1);
      options.fit ? muster::bench::fit(options) : muster::bench::train(options);
    } else {
      muster::bench::run(options);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
