// Training examples a second with a small network on a table: 13 features, two hidden layers of 64,
// one number; batches of 64, on one core. By a model function, mean squared error, compared with
// PyTorch and a loop over LibTorch alone, with three optimizers; and by a DNNClassifier, compared
// with PyTorch. A DNNClassifier and a wide and deep model of the census compared with
// tf.estimator's own, Keras, and PyTorch of today. Two workers with a DNNClassifier, compared with
// two that only wait at a barrier.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/step_pacer.h"
#include "benchmarks/support/step_pacer_hook.h"
#include "benchmarks/tabular/census.h"
#include "muster/base/error.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kRows = 100'000, kFeatures = 13, kUnits = 64, kBatch = 64;
constexpr double kLearningRate = 0.01;
constexpr uint64_t kSeed = 1;

struct Options {
  std::string json, only, way, optimizer = "sgd", data;
  bool quick = false;
  bool barrier = false;  // of a DNNClassifier: it meets others, and exchanges nothing with them
};

struct Table {
  Tensor features = torch::randn({kRows, kFeatures}, at::make_generator<at::CPUGeneratorImpl>(1));
  Tensor targets = features.sin().sum(1, /*keepdim=*/true);
};

// ---- by an Estimator ----

optim::Optimizer optimizer_of(const std::string& name) {
  if (name == "adagrad") return optim::adagrad({.learning_rate = kLearningRate});
  if (name == "adam") return optim::adam({.learning_rate = kLearningRate});
  return optim::sgd({.learning_rate = kLearningRate});
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode,
                       ModelContext& context) {
  auto model = context.model("mlp", [] {
    return Sequential({Dense(kUnits, {.activation = activations::relu}),
                       Dense(kUnits, {.activation = activations::relu}), Dense(1)});
  });
  const Tensor loss = losses::mean_squared_error(labels, model(features["x"]));
  auto optimizer = context.optimizer(optimizer_of(context.param<std::string>("optimizer")));
  return EstimatorSpec::train(loss, optimizer.minimize(loss));
}

void train_with_estimator(const Options& options) {
  const Table table;
  Estimator regressor(model_fn,
                      {.model_dir = std::getenv("BENCH_MODEL_DIR"),
                       .random_seed = kSeed,
                       .save_checkpoints_steps = 0},
                      {{"optimizer", options.optimizer}});
  const auto input = [&] {
    return Dataset::from_tensor_slices(
               Element::tuple({Element::dict({{"x", table.features}}), table.targets}))
        .shuffle(kRows)
        .repeat()
        .batch(kBatch);
  };
  regressor.train(input, {.hooks = {std::make_shared<StepPacerHook>()}});
}

// ---- by a canned estimator ----

void train_classifier(const Options& options) {
  const Table table;
  const Element features = Element::dict({{"x/values", table.features}});
  const Element rows = Element::tuple({features, table.targets.gt(0).to(kFloat32)});
  RunConfig config{.model_dir = std::getenv("BENCH_MODEL_DIR"),
                   .random_seed = kSeed,
                   .save_checkpoints_steps = 0};
  const auto hooks = step_pacer_hooks(options.barrier, config);
  Estimator classifier = DNNClassifier(
      {.hidden_units = {kUnits, kUnits},
       .feature_columns = {feature_column::numeric_column("x", {.shape = {kFeatures}})},
       .optimizer = optimizer_of(options.optimizer)},
      config);
  const auto input = [&] {
    return Dataset::from_tensor_slices(rows).shuffle(kRows).repeat().batch(kBatch);
  };
  classifier.train(input, {.hooks = hooks});
}

// ---- by hand ----

// As one writes it with LibTorch: its modules, and its optimizers.
void train_with_libtorch(const Options& options) {
  const Table table;
  torch::nn::Sequential model(torch::nn::Linear(kFeatures, kUnits), torch::nn::ReLU(),
                              torch::nn::Linear(kUnits, kUnits), torch::nn::ReLU(),
                              torch::nn::Linear(kUnits, 1));
  std::unique_ptr<torch::optim::Optimizer> update;
  if (options.optimizer == "adagrad") {
    update = std::make_unique<torch::optim::Adagrad>(
        model->parameters(),
        torch::optim::AdagradOptions(kLearningRate).initial_accumulator_value(0.1).eps(1e-7));
  } else if (options.optimizer == "adam") {
    update = std::make_unique<torch::optim::Adam>(
        model->parameters(), torch::optim::AdamOptions(kLearningRate).eps(1e-7));
  } else {
    update = std::make_unique<torch::optim::SGD>(model->parameters(), kLearningRate);
  }
  Tensor order;
  int64_t at = kRows;
  StepPacer pacer;
  double loss = 0;
  for (int64_t made = 1; pacer.next(loss); ++made) {
    if (at + kBatch > kRows) {
      order = torch::randperm(kRows, at::kLong);
      at = 0;
    }
    const Tensor rows = order.slice(0, at, at + kBatch);
    at += kBatch;
    update->zero_grad();
    const Tensor result = torch::mse_loss(model->forward(table.features.index_select(0, rows)),
                                          table.targets.index_select(0, rows));
    result.backward();
    update->step();
    if (made % 10 == 0) loss = result.item<double>();
  }
}

// ---- the comparison ----

constexpr const char* kOptimizers[] = {"sgd", "adagrad", "adam"};

Contestant self(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/proc/self/exe");
  return {.name = name, .argv = std::move(arguments), .rows = kBatch};
}

Plan plan_of(const Options& options) {
  return options.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = 200}
                       : Plan{.steps = 200};
}

// Muster's is the first of the contestants.
void compare_with_others(const Options& options, const std::string& benchmark,
                         const std::string& title, const std::vector<Contestant>& contestants) {
  const std::vector<Result> results = compare(contestants, plan_of(options));
  print_table(benchmark, title, results, results.size() > 1 ? 1 : 0, options.json);
  for (size_t other = 1; other < results.size(); ++other) {
    const Result& beside = results[other];
    const Estimate ratio = estimate_ratio(beside.seconds, results[0].seconds);
    fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}){}.\n",
               beside.contestant.name, ratio.median, ratio.low, ratio.high,
               beside.contestant.name == "PyTorch" ? "; aim: 1.6" : "");
  }
  fmt::print("{} samples of {} steps.\n", plan_of(options).samples(),
             plan_of(options).steps_per_sample());
}

Contestant pytorch(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tabular_torch.py");
  Contestant contestant = python_peer("PyTorch", arguments);
  contestant.rows = kBatch;
  return contestant;
}

// DNNClassifier, and a wide and deep model, compared with tf.estimator's own and others.
void run_originals(const Options& options, const std::string& name, const std::string& title,
                   const std::vector<Contestant>& contestants) {
  const Plan plan = options.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = 200}
                                  : Plan{.launches = 2, .pairs = 8, .turns = 2, .steps = 200};
  compare_with_first("originals_" + name, title, contestants, plan, options.json);
}

void run_classifier(const Options& options) {
  std::vector<Contestant> contestants{
      self("Muster, DNNClassifier", {"--way=classifier", "--optimizer=adagrad"})};
  add_peer("tf.estimator 2.15", "tensorflow", {"tensorflow_peer.py", "--task=table"}, kBatch,
           &contestants);
  add_peer("PyTorch 2.15, eager", "today",
           {"tabular_torch.py", "--optimizer=adagrad", "--classifier"}, kBatch, &contestants);
  add_peer("PyTorch 2.15, compiled", "today",
           {"tabular_torch.py", "--optimizer=adagrad", "--classifier", "--compile"}, kBatch,
           &contestants);
  run_originals(options, "table", "DNNClassifier, 13 features, 64-64, batch 64, Adagrad",
                contestants);
}

void run_census(const Options& options) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  if (folder == nullptr) {
    fmt::print("MUSTER_TEST_DATA is not set: the census is left out.\n");
    return;
  }
  const std::string data = fmt::format("--data={}/tabular/census/adult_train.csv", folder);
  std::vector<Contestant> contestants{
      self("Muster, DNNLinearCombinedClassifier", {"--way=census", data})};
  contestants[0].rows = kCensusBatch;
  const std::string batch = fmt::format("--batch={}", kCensusBatch);
  add_peer("tf.estimator 2.15", "tensorflow", {"tensorflow_peer.py", "--task=census", data, batch},
           kCensusBatch, &contestants);
  for (const auto& [name, environment] :
       {std::pair{"Keras 2.15", "tensorflow"}, std::pair{"Keras 3 on TensorFlow", "today"}}) {
    add_peer(name, environment, {"tables_keras.py", "--task=census", data, batch}, kCensusBatch,
             &contestants);
  }
  run_originals(options, "census",
                fmt::format("wide and deep on the census, batch {}", kCensusBatch), contestants);
}

void run_on_one_core(const Options& options) {
  const bool has_pytorch = has_python("torch", "python3-torch");
  for (const std::string name : kOptimizers) {
    const std::string optimizer = "--optimizer=" + name;
    std::vector<Contestant> contestants{
        self("Muster, Estimator::train", {"--way=estimator", optimizer})};
    if (has_pytorch) contestants.push_back(pytorch({optimizer}));
    contestants.push_back(self("LibTorch alone", {"--way=libtorch", optimizer}));
    compare_with_others(
        options, "tabular_" + name,
        fmt::format("One core: a table of 13 features, 64-64-1, batch 64, {}", name), contestants);
  }
  for (const std::string name : kOptimizers) {
    const std::string optimizer = "--optimizer=" + name;
    std::vector<Contestant> contestants{
        self("Muster, DNNClassifier", {"--way=classifier", optimizer})};
    if (has_pytorch) contestants.push_back(pytorch({optimizer, "--classifier"}));
    compare_with_others(
        options, "dnn_classifier_" + name,
        fmt::format("One core: DNNClassifier, 13 features, 64-64, batch 64, {}", name),
        contestants);
  }
}

void run_on_two_cores(const Options& options) {
  constexpr int kWorkers = 2;
  std::vector<Contestant> contestants{
      self("DNNClassifier, a barrier only", {"--way=classifier", "--barrier"}),
      self("DNNClassifier, over TCP", {"--way=classifier"}),
      self("DNNClassifier, its own choice", {"--way=classifier"})};
  contestants[1].environment = {{"MUSTER_TRANSPORT", "tcp"}};
  for (Contestant& contestant : contestants) {
    contestant.argv.push_back("--optimizer=adagrad");
    contestant.workers = kWorkers;
    contestant.rows = kWorkers * kBatch;
  }
  Plan plan = plan_of(options);
  if (!options.quick) plan = {.launches = 7, .pairs = 3, .steps = 200};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("dnn_classifier_workers",
              "Two workers of one thread: DNNClassifier, 64-64, batch 64 each, adagrad", results, 0,
              options.json);
  for (size_t who = 1; who < results.size(); ++who) {
    print_speed_against(results[who], results[0]);
    if (who == 2) fmt::print("Aim: 95 %.\n");
  }
}

void run(const Options& options) {
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  if (wanted("classifier")) run_classifier(options);
  if (wanted("census")) run_census(options);
  if (wanted("libtorch")) run_on_one_core(options);
  if (wanted("workers")) run_on_two_cores(options);
}

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("A benchmark; ./dev bench runs all of them.");
  app.add_option("--json", options.json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", options.quick, "Few samples, to see that it works");
  app.add_option("--only", options.only, "Only this part")
      ->check(CLI::IsMember({"classifier", "census", "libtorch", "workers"}));
  app.add_option("--way", options.way)->group("");
  app.add_option("--data", options.data)->group("");
  app.add_option("--optimizer", options.optimizer)->group("");
  app.add_flag("--barrier", options.barrier)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return options;
}

void take_part_or_run(const Options& options) {
  if (options.way.empty()) return run(options);
  set_threads(1);
  if (options.way == "estimator") return train_with_estimator(options);
  if (options.way == "classifier") return train_classifier(options);
  if (options.way == "census") return train_on_census(options.data);
  train_with_libtorch(options);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  try {
    muster::bench::take_part_or_run(muster::bench::parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
