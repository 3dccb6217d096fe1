#include "benchmarks/support/mnist_model.h"

#include <muster/muster.h>
#include <muster/parallel.h>
#include <torch/nn/modules/linear.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "benchmarks/support/layers_by_hand.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/step_pacer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "muster/base/allocator.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr double kLearningRate = 0.02;
constexpr uint64_t kSeed = 1;

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

Layer make_model(const std::string& name) {
  if (name == "mlp") {
    return Sequential({Flatten(), Dense(4096, {.activation = activations::relu}),
                       Dense(4096, {.activation = activations::relu}),
                       Dense(1024, {.activation = activations::relu}), Dense(10)});
  }
  if (name == "tower") {
    std::vector<Layer> layers{Flatten()};
    for (int i = 0; i < 10; ++i) layers.push_back(Dense(1024, {.activation = activations::relu}));
    layers.push_back(Dense(10));
    return Sequential(std::move(layers));
  }
  return Sequential({Conv2D(32, 3, {.activation = activations::relu}), MaxPooling2D(), Flatten(),
                     Dense(64, {.activation = activations::relu}), Dense(10)});
}

Element to_features(const Element& batch) {
  return Element::tuple(
      {Element::dict({{"image", batch.part(0).value().tensor().to(kFloat32).mul_(1.0f / 255)}}),
       batch.part(1)});
}

Dataset make_data(const Settings& settings) {
  const Dataset train = data::mnist(settings.data_dir, "train");
  return train.shuffle(train.cardinality()).repeat().batch(settings.batch).map(to_features);
}

// ---- by an Estimator ----

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  auto model = context.model("cnn", [&] {
    return mixed_precision(context.param<std::string>("precision"),
                           make_model(context.param<std::string>("model")));
  });
  Tensor logits = model(features["image"]);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"class", logits.argmax(-1)}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval)
    return EstimatorSpec::eval(loss, {{"accuracy", metrics::accuracy(labels, logits.argmax(-1))}});
  for (int64_t i = 0; i < context.param<int64_t>("scalars"); ++i) {
    context.summary().scalar(fmt::format("logits/{}", i),
                             [&] { return logits.select(1, i % logits.size(1)).mean(); });
  }
  auto optimizer =
      context.optimizer(optim::sgd({.learning_rate = context.param<double>("learning_rate"),
                                    .momentum = context.param<double>("momentum")}));
  return EstimatorSpec::train(loss, optimizer.minimize(loss));
}

Estimator make_estimator(const Settings& settings, RunConfig config) {
  config.model_dir = std::getenv("BENCH_MODEL_DIR");
  config.random_seed = kSeed;
  return Estimator(model_fn, std::move(config),
                   {{"learning_rate", kLearningRate},
                    {"momentum", settings.momentum},
                    {"scalars", std::max(settings.scalars, int64_t{0})},
                    {"model", settings.model},
                    {"precision", settings.precision}});
}

void train_with_estimator(const Settings& settings) {
  distribute::CommunicationOptions communication;
  if (!settings.overlap) communication.bytes_per_pack = 0;
  Estimator classifier = make_estimator(
      settings, {.save_summary_steps = settings.scalars < 0   ? 100
                                       : settings.scalars > 0 ? 10
                                                              : 0,
                 .save_checkpoints_steps = 0,
                 .train_distribute = distribute::multi_worker_mirrored(communication)});
  classifier.train([&] { return make_data(settings); },
                   {.hooks = {std::make_shared<StepPacerHook>()}});
}

// An Estimator with a checkpoint of one step, for what is asked of a trained model.
Estimator trained_estimator(const Settings& settings) {
  Estimator classifier = make_estimator(settings, {.progress_line = false});
  classifier.train([&] { return make_data(settings); }, {.steps = 1});
  return classifier;
}

// A step is an evaluation over the test images.
void evaluate_with_estimator(const Settings& settings) {
  Estimator classifier = trained_estimator(settings);
  const Dataset test = data::mnist(settings.data_dir, "test").batch(100).map(to_features);
  double loss = 0;
  for (StepPacer pacer; pacer.next(loss);)
    loss = classifier.evaluate([&] { return test; }).at("loss");
}

// A step is the class of one image, given as bytes.
void predict_with_estimator(const Settings& settings) {
  Estimator classifier = trained_estimator(settings);
  const Predictor predictor(classifier);
  const auto batch = data::mnist(settings.data_dir, "test").batch(1).iterator()->next();
  const Tensor image = batch->part(0).value().tensor();
  double found = 0;
  for (StepPacer pacer; pacer.next(found);) {
    const Tensor floats = image.to(kFloat32).mul_(1.0f / 255);
    found = predictor.predict_batch({{"image", floats}}).at("class").item<double>();
  }
}

// ---- by hand ----

struct Batch {
  Tensor images, labels;
};

// What a loop of one's own has at hand: this worker's batches, and where the workers meet.
class Loop {
 public:
  // `meets`: at a barrier after each step.
  explicit Loop(const Settings& settings, bool meets = true)
      : meets_(meets),
        size_(from_environment("WORLD_SIZE", 1)),
        rank_(from_environment("RANK", 0)),
        iterator_(make_data(settings).iterator(
            {.seed = kSeed, .sharding = {.num_replicas = size_, .replica = rank_}})),
        barrier_(from_environment("BENCH_BARRIER", -1), rank_, size_) {}

  // The first batch, which a model is built with; next() gives it again.
  Batch first() { return *(first_ = next()); }
  Batch next() {
    if (first_) return *std::exchange(first_, std::nullopt);
    const auto element = iterator_->next();
    if (!element) throw internal_error("the data has an end");
    return {element->part(0).at("image").value().tensor(), element->part(1).value().tensor()};
  }

  // `step` makes one step and returns the loss. Nobody reads the loss of every step; a loop that
  // is written by hand prints it now and then.
  void run(const std::function<Tensor(const Batch&)>& step) {
    StepPacer pacer;
    double loss = 0;
    for (int64_t made = 1; pacer.next(loss); ++made) {
      const Tensor result = step(next());
      if (meets_ && size_ > 1) barrier_.wait();
      if (made % 10 == 0) loss = result.item<double>();
    }
  }

 private:
  bool meets_;
  int size_;
  int rank_;
  std::unique_ptr<Iterator> iterator_;
  SharedBarrier barrier_;
  std::optional<Batch> first_;
};

// The plain update of stochastic gradient descent, in place.
class Updates {
 public:
  Updates(std::vector<Tensor> parameters, double momentum)
      : parameters_(std::move(parameters)), momentum_(momentum) {
    if (momentum_ == 0) return;
    for (const Tensor& parameter : parameters_) velocities_.push_back(torch::zeros_like(parameter));
  }
  void operator()() {
    torch::NoGradGuard no_grad;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      Tensor& gradient = parameters_[p].mutable_grad();
      if (momentum_ == 0) {
        parameters_[p].add_(gradient, -kLearningRate);
      } else {
        velocities_[p].mul_(momentum_).add_(gradient, -kLearningRate);
        parameters_[p].add_(velocities_[p]);
      }
      gradient.reset();
    }
  }

 private:
  std::vector<Tensor> parameters_, velocities_;
  double momentum_;
};

void train_layers(const Settings& settings) {
  Loop loop(settings);
  LayersByHand layers("cnn", mixed_precision(settings.precision, make_model(settings.model)),
                      loop.first().images, kSeed);
  UpdatesByHand update(layers.parameters(),
                       optim::sgd({.learning_rate = kLearningRate, .momentum = settings.momentum}));
  loop.run([&](const Batch& batch) {
    const Tensor loss = losses::sparse_categorical_crossentropy(
        batch.labels, layers.call(batch.images), {.from_logits = true});
    loss.backward();
    update();
    return loss.detach();
  });
}

// What one writes with LibTorch when one knows its layouts: channels-last input by strides, relu
// after pooling, flatten without a copy, matrices as addmm wants them.
struct TunedNet : torch::nn::Module {
  explicit TunedNet(const LayersByHand& layers) {
    const auto add = [&](const std::string& name, const std::function<Tensor(Tensor)>& in_layout) {
      return register_parameter(name, in_layout(layers.value("cnn/" + name).detach().clone()));
    };
    const auto as_it_is = [](Tensor value) { return value; };
    kernel = add("conv2d/kernel", [](const Tensor& value) {
      return value.permute({3, 2, 0, 1}).contiguous();
    });
    bias = add("conv2d/bias", as_it_is);
    dense = add("dense/kernel", as_it_is);
    dense_bias = add("dense/bias", as_it_is);
    logits = add("dense_1/kernel", as_it_is);
    logits_bias = add("dense_1/bias", as_it_is);
  }
  Tensor forward(const Tensor& images) {
    Tensor x = torch::conv2d(images.permute({0, 3, 1, 2}), kernel, bias);
    x = torch::relu(torch::max_pool2d(x, 2));
    x = x.permute({0, 2, 3, 1}).view({images.size(0), -1});
    x = torch::relu(torch::addmm(dense_bias, x, dense));
    return torch::addmm(logits_bias, x, logits);
  }
  Tensor kernel, bias, dense, dense_bias, logits, logits_bias;
};

// Dense layers of these sizes, as one writes them: Mlp of benchmarks/peers/mnist_torch.py.
struct LinearNet : torch::nn::Module {
  explicit LinearNet(const std::vector<int64_t>& sizes) {
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      layers.push_back(
          register_module(fmt::format("layer{}", i), torch::nn::Linear(sizes[i], sizes[i + 1])));
    }
  }
  Tensor forward(const Tensor& images) {
    Tensor x = images.view({images.size(0), -1});
    for (size_t i = 0; i + 1 < layers.size(); ++i) x = torch::relu(layers[i](x));
    return layers.back()(x);
  }
  std::vector<torch::nn::Linear> layers;
};

template <typename Net>
void train_module(const Settings& settings, Loop& loop, const std::shared_ptr<Net>& net) {
  Updates update(net->parameters(), settings.momentum);
  const auto train = [&](auto&& forward) {
    loop.run([&](const Batch& batch) {
      const Tensor loss =
          torch::cross_entropy_loss(forward(batch.images), batch.labels.to(at::kLong));
      loss.backward();
      update();
      return loss.detach();
    });
  };
  if (settings.way != kDataParallel)
    return train([&](const Tensor& images) { return net->forward(images); });
  ClusterOptions options;
  if (!settings.overlap) options.communication.bytes_per_pack = 0;
  Cluster cluster(options);
  train(cluster.data_parallel(net));
}

void train_libtorch(const Settings& settings) {
  Loop loop(settings, /*meets=*/settings.way != kDataParallel);
  if (settings.model == "cnn") {
    const LayersByHand layers("cnn", make_model("cnn"), loop.first().images, kSeed);
    return train_module(settings, loop, std::make_shared<TunedNet>(layers));
  }
  torch::manual_seed(kSeed);
  std::vector<int64_t> sizes{784, 4096, 4096, 1024, 10};
  if (settings.model == "tower") {
    sizes.assign(12, 1024);
    sizes.front() = 784;
    sizes.back() = 10;
  }
  train_module(settings, loop, std::make_shared<LinearNet>(sizes));
}

Settings parse(int argc, char** argv) {
  Settings settings;
  CLI::App app("A benchmark; ./dev bench runs all of them.");
  app.add_option("--data_dir", settings.data_dir, "Digits in MNIST's format")->required();
  app.add_option("--json", settings.json, "Where to append the figures as lines of JSON");
  app.add_option("--beside", settings.beside,
                 "Folder of the same programs, built from other source")
      ->check(CLI::ExistingDirectory);
  app.add_flag("--quick", settings.quick, "Few samples, to see that it works");
  app.add_option("--only", settings.only,
                 "Only this part; a benchmark of several parts names them");
  app.add_option("--way", settings.way)->group("");
  app.add_option("--batch", settings.batch)->group("");
  app.add_option("--model", settings.model)->group("");
  app.add_option("--momentum", settings.momentum)->group("");
  app.add_option("--precision", settings.precision)->group("");
  app.add_option("--scalars", settings.scalars)->group("");
  app.add_flag("--overlap,!--no-overlap", settings.overlap)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return settings;
}

void take_part(const Settings& settings) {
  set_threads(1);
  // As Muster does for a run of its own: a loop alone, and Python's programs, have it too.
  keep_freed_memory();
  if (settings.way == kEstimator) {
    train_with_estimator(settings);
  } else if (settings.way == kEvaluate) {
    evaluate_with_estimator(settings);
  } else if (settings.way == kPredict) {
    predict_with_estimator(settings);
  } else if (settings.way == kLayers) {
    train_layers(settings);
  } else {
    train_libtorch(settings);
  }
}

}  // namespace

Contestant contestant(const std::string& name, const Settings& settings) {
  Contestant contestant{
      .name = name,
      .argv = {"/proc/self/exe", "--data_dir=" + settings.data_dir, "--way=" + settings.way,
               fmt::format("--batch={}", settings.batch),
               fmt::format("--momentum={}", settings.momentum), "--model=" + settings.model,
               "--precision=" + settings.precision, fmt::format("--scalars={}", settings.scalars),
               settings.overlap ? "--overlap" : "--no-overlap"},
      .environment = {{"MUSTER_TRANSPORT", settings.transport}},
      .rows = settings.batch};
  return contestant;
}

Contestant other_build(Contestant contestant, const Settings& settings) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe");
  contestant.name += ", other build";
  contestant.argv[0] = std::filesystem::path(settings.beside) / self.filename();
  return contestant;
}

Contestant peer(const std::string& name, const std::vector<std::string>& arguments,
                const Settings& settings) {
  std::vector<std::string> words{arguments.front(), "--data_dir=" + settings.data_dir,
                                 fmt::format("--batch={}", settings.batch),
                                 fmt::format("--momentum={}", settings.momentum),
                                 "--model=" + settings.model};
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  Contestant contestant = python_peer(name, words);
  contestant.rows = settings.batch;
  return contestant;
}

bool has_pytorch() { return has_python("torch", "python3-torch"); }

int benchmark_main(int argc, char** argv, const std::function<void(const Settings&)>& run) {
  try {
    const Settings settings = parse(argc, argv);
    if (settings.way.empty()) {
      run(settings);
    } else {
      take_part(settings);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace muster::bench
