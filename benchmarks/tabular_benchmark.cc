// Training examples a second with a small network on a table: 13 features, two hidden layers of 64,
// one number; batches of 64, mean squared error, on one core. By an Estimator, beside PyTorch and a
// loop over LibTorch alone, with three optimizers.
#include <fmt/format.h>
#include <muster/muster.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/turns.h"
#include "benchmarks/support/turns_hook.h"
#include "muster/base/error.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kRows = 100'000, kFeatures = 13, kUnits = 64, kBatch = 64;
constexpr double kLearningRate = 0.01;
constexpr uint64_t kSeed = 1;

struct Options {
  std::string json, way, optimizer = "sgd";
  bool quick = false;
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
  regressor.train(input, {.hooks = {std::make_shared<TurnsHook>()}});
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
  Turns turns;
  double loss = 0;
  for (int64_t made = 1; turns.next(loss); ++made) {
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

void run(const Options& options) {
  const Plan plan = options.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = 200}
                                  : Plan{.steps = 200};
  const bool pytorch = has_python("torch", "python3-torch");
  for (const std::string name : {"sgd", "adagrad", "adam"}) {
    const std::string optimizer = "--optimizer=" + name;
    std::vector<Contestant> contestants{{.name = "Muster, Estimator::train",
                                         .argv = {"/proc/self/exe", "--way=estimator", optimizer}}};
    if (pytorch) contestants.push_back(python_peer("PyTorch", {"tabular_torch.py", optimizer}));
    contestants.push_back(
        {.name = "LibTorch alone", .argv = {"/proc/self/exe", "--way=libtorch", optimizer}});
    for (Contestant& contestant : contestants) contestant.rows = kBatch;
    const std::vector<Result> results = compare(contestants, plan);
    print_table("tabular_" + name,
                fmt::format("One core: a table of 13 features, 64-64-1, batch 64, {}", name),
                results, 1, options.json);
    for (size_t other = 1; other < results.size(); ++other) {
      const Estimate ratio = estimate_ratio(results[other].seconds, results[0].seconds);
      fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}){}.\n",
                 results[other].contestant.name, ratio.median, ratio.low, ratio.high,
                 pytorch && other == 1 ? "; aim: 1.6" : "");
    }
  }
  fmt::print("{} samples of {} steps.\n", plan.samples(), plan.steps_per_sample());
}

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("A benchmark; ./dev bench runs all of them.");
  app.add_option("--json", options.json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", options.quick, "Few samples, to see that it works");
  app.add_option("--way", options.way)->group("");
  app.add_option("--optimizer", options.optimizer)->group("");
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
  options.way == "estimator" ? train_with_estimator(options) : train_with_libtorch(options);
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
