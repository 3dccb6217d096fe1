#include "benchmarks/resnet/contestants.h"

#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <utility>

#include "benchmarks/resnet/torch_loop.h"
#include "benchmarks/support/layers_by_hand.h"
#include "benchmarks/support/step_pacer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "muster/base/allocator.h"
#include "muster/base/error.h"
#include "muster/tensor/threads.h"

namespace muster::bench::resnet {
namespace {

constexpr int64_t kExamples = 64, kClasses = 1000, kVocabulary = 256;
constexpr int64_t kFeatures = 128, kUnits = 128, kLabels = 10;  // of the LSTM
constexpr double kLearningRate = 0.01, kMomentum = 0.9;
constexpr uint64_t kSeed = 1;
const char* const kName = "net";  // of the model; it decides initial values

Layer make_network(const Entry& entry) {
  if (entry.network == "gpt") {
    return applications::GPT(
        {.vocabulary_size = kVocabulary, .context = kTime, .layers = 4, .heads = 4, .width = 256});
  }
  if (entry.network == "lstm") return Sequential({LSTM(kUnits), Dense(kLabels)});
  const applications::ResNetOptions options{.input_shape = {entry.side, entry.side, 3},
                                            .classes = kClasses,
                                            .classifier_activation = Activation::kLinear,
                                            .torchvision = true,
                                            .recompute = entry.recompute};
  return entry.network == "resnet18" ? applications::ResNet18(options)
                                     : applications::ResNet50(options);
}

Layer make_model(const Entry& entry) {
  return mixed_precision(entry.precision, make_network(entry));
}

optim::Optimizer make_optimizer() {
  return optim::sgd({.learning_rate = kLearningRate, .momentum = kMomentum});
}

Tensor loss_of(const Tensor& labels, const Tensor& logits) {
  return losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
}

// Photos and their classes, without end.
Dataset photos(const Entry& entry) {
  const Dataset once = data::image_folder(entry.photos, {.height = entry.side,
                                                         .width = entry.side,
                                                         .fit = data::ImageFit::kRandomCrop,
                                                         .mean = {0.485, 0.456, 0.406},
                                                         .std = {0.229, 0.224, 0.225}});
  if (!entry.decoded) return once.shuffle(once.cardinality()).repeat().batch(kBatch).prefetch();
  const auto all = once.batch(once.cardinality()).iterator()->next();
  return Dataset::from_tensor_slices(*all).shuffle(once.cardinality()).repeat().batch(kBatch);
}

// The batches of a model, without end: (x, labels).
Dataset batches(const Entry& entry) {
  if (!entry.photos.empty()) return photos(entry);
  const bool gpt = entry.network == "gpt", lstm = entry.network == "lstm";
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const Tensor x = gpt    ? torch::randint(kVocabulary, {kExamples, kTime}, generator, at::kLong)
                   : lstm ? torch::randn({kExamples, kSteps, kFeatures}, generator)
                          : torch::randn({kExamples, entry.side, entry.side, 3}, generator);
  const Tensor labels =
      gpt ? x.roll(-1, 1)
          : torch::randint(lstm ? kLabels : kClasses, {kExamples}, generator, at::kLong);
  return Dataset::from_tensor_slices(Element::tuple({x, labels}))
      .shuffle(kExamples)
      .repeat()
      .batch(entry.rows());
}

void train(const Entry& entry) {
  const ModelFn model_fn = [entry](const Features& features, const Labels& labels, Mode,
                                   ModelContext& context) {
    auto model = context.model(kName, [&] { return make_model(entry); });
    const Tensor loss = loss_of(labels, model(features));
    return EstimatorSpec::train(loss, context.optimizer(make_optimizer()).minimize(loss));
  };
  RunConfig config{.model_dir = std::getenv("BENCH_MODEL_DIR"),
                   .random_seed = kSeed,
                   .save_checkpoints_steps = 0};
  const auto hooks = step_pacer_hooks(entry.barrier, config);
  Estimator estimator(model_fn, config);
  estimator.train([&] { return batches(entry); }, {.hooks = hooks});
}

struct StepPacerCallback : keras::Callback {
  void on_train_batch_begin(int64_t batch) override {
    if (batch == 0) pacer.next();
  }
  void on_train_batch_end(const keras::BatchInfo& info) override {
    if (!pacer.next(info.loss)) model().stop_training();
  }
  StepPacer pacer;
};

void fit(const Entry& entry) {
  keras::Model model(make_model(entry), {.name = kName, .seed = kSeed});
  model.compile({.optimizer = make_optimizer(),
                 .loss = keras::SparseCategoricalCrossentropy({.from_logits = true})});
  constexpr int64_t kNoEnd = 1'000'000;
  model.fit(batches(entry), {.steps_per_epoch = kNoEnd,
                             .callbacks = {std::make_shared<StepPacerCallback>()},
                             .verbose = keras::Verbose::kSilent});
}

void train_by_hand(const Entry& entry) {
  const auto iterator = batches(entry).iterator({.seed = kSeed});
  std::optional<Element> batch;
  const auto next = [&] {
    if (!(batch = iterator->next())) throw internal_error("the data has an end");
  };
  next();
  LayersByHand layers(kName, make_model(entry), batch->part(0).value().tensor(), kSeed);
  UpdatesByHand update(layers.parameters(), make_optimizer());
  StepPacer pacer;
  for (double last = 0; pacer.next(last); next()) {
    const Tensor loss =
        loss_of(batch->part(1).value().tensor(), layers.call(batch->part(0).value().tensor()));
    loss.backward();
    update();
    last = loss.item<double>();  // like an Estimator, which refuses a loss that is not a number
  }
}

void predict(const Entry& entry) {
  keras::Model model(make_model(entry), {.name = kName, .seed = kSeed});
  const auto batch = batches(entry).iterator()->next();
  StepPacer pacer;
  while (pacer.next()) (void)model.predict_on_batch(batch->part(0));
}

}  // namespace

Contestant contestant(const std::string& name, const Entry& entry) {
  Contestant contestant{
      .name = name,
      .argv = {"/proc/self/exe", "--take_part", "--way=" + entry.way, "--network=" + entry.network,
               "--precision=" + entry.precision, fmt::format("--side={}", entry.side)},
      .rows = entry.rows()};
  if (!entry.photos.empty()) contestant.argv.push_back("--photos=" + entry.photos);
  if (entry.recompute) contestant.argv.push_back("--recompute");
  if (entry.barrier) contestant.argv.push_back("--barrier");
  if (entry.decoded) contestant.argv.push_back("--decoded");
  return contestant;
}

void add_options(CLI::App& app, Entry& entry) {
  app.add_option("--way", entry.way)->group("");
  app.add_option("--network", entry.network)->group("");
  app.add_option("--precision", entry.precision)->group("");
  app.add_option("--side", entry.side)->group("");
  app.add_option("--photos", entry.photos)->group("");
  app.add_flag("--recompute", entry.recompute)->group("");
  app.add_flag("--barrier", entry.barrier)->group("");
  app.add_flag("--decoded", entry.decoded)->group("");
}

void take_part(const Entry& entry) {
  set_threads(1);
  // As Muster does for a run of its own: a loop alone, and Python's programs, have it too.
  keep_freed_memory();
  if (entry.way == "fit") {
    fit(entry);
  } else if (entry.way == "loop") {
    train_by_hand(entry);
  } else if (entry.way == "predict") {
    predict(entry);
  } else if (entry.way == "libtorch" || entry.way == "data_parallel") {
    train_torch_loop(entry);
  } else {
    train(entry);
  }
}

}  // namespace muster::bench::resnet
