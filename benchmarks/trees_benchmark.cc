// Boosted trees on a table of 50 numbers, one core, beside xgboost's `hist`: seconds from the table
// in memory to the trained model, and the area under the ROC curve on rows held out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/trees/boosted_trees.h"

namespace muster::bench {
namespace {

constexpr int64_t kColumns = 50;
constexpr int64_t kTrees = 100, kDepth = 6;

struct Settings {
  std::string data;  // of a contestant; empty: the program
  std::string json;
  int64_t rows = 1'000'000;
  int rounds = 3;
  bool quick = false;
};

// Rows of normal numbers, a tenth of which are missing in every fifth column, and labels that a few
// columns decide, alone, in pairs and by steps.
void write_rows(const std::string& path, int64_t rows, uint64_t seed) {
  Random random(derive_key(seed, {}));
  std::ofstream features(path + ".features", std::ios::binary);
  std::ofstream labels(path + ".labels", std::ios::binary);
  std::array<float, kColumns> x{};
  for (int64_t row = 0; row < rows; ++row) {
    for (float& value : x) value = static_cast<float>(random.normal());
    const double logit = x[0] + 0.8 * (x[1] - 0.3) * (x[2] + 0.2) + 0.7 * std::sin(2 * x[3]) +
                         (x[4] > 0.5F ? 1.0 : -0.3) + 0.5 * std::abs(x[6]) -
                         0.4 * (x[7] + 0.5) * (x[8] - 0.1);
    const float label = random.uniform() < 1 / (1 + std::exp(-logit)) ? 1.0F : 0.0F;
    for (size_t c = 0; c < x.size(); c += 5) {
      if (random.uniform() < 0.1) x[c] = std::numeric_limits<float>::quiet_NaN();
    }
    features.write(reinterpret_cast<const char*>(x.data()), sizeof(x));
    labels.write(reinterpret_cast<const char*>(&label), sizeof(label));
  }
}

Tensor read_floats(const std::string& path, Shape shape) {
  Tensor values = torch::empty(shape);
  std::ifstream in(path, std::ios::binary);
  in.read(static_cast<char*>(values.data_ptr()), values.numel() * 4);
  if (!in) throw not_found("cannot read " + path);
  return values;
}

Dataset read_rows(const std::string& path) {
  const auto rows = static_cast<int64_t>(std::filesystem::file_size(path + ".labels") / 4);
  const Element features =
      Element::dict({{"x", read_floats(path + ".features", {rows, kColumns})}});
  return Dataset::from_tensor_slices(
             Element::tuple({features, read_floats(path + ".labels", {rows})}))
      .batch(16384);
}

// The exact area under the ROC curve, by ranks.
double area(const std::vector<float>& scores, const std::string& path) {
  const Tensor labels = read_floats(path + ".labels", {static_cast<int64_t>(scores.size())});
  std::vector<std::pair<float, float>> pairs;
  for (size_t i = 0; i < scores.size(); ++i)
    pairs.emplace_back(scores[i], labels.data_ptr<float>()[i]);
  std::ranges::stable_sort(pairs, {}, &std::pair<float, float>::first);
  double ranks = 0, positive = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].second == 0) continue;
    ranks += static_cast<double>(i + 1);
    ++positive;
  }
  const double negative = static_cast<double>(pairs.size()) - positive;
  return (ranks - positive * (positive + 1) / 2) / (positive * negative);
}

// A contestant: trains once, and prints its seconds, those of the CPU, and its area.
void take_part(const std::string& path) {
  set_threads(1);
  const Dataset train = read_rows(path + "/train"), test = read_rows(path + "/test");
  const Scratch model_dir;
  BoostedTreesClassifier classifier({.n_trees = kTrees,
                                     .max_depth = kDepth,
                                     .learning_rate = 0.1,
                                     .l2_regularization = 1,
                                     .min_node_weight = 1},
                                    {.model_dir = model_dir.path});
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  classifier.train([&] { return train; });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  BoostedTreesPredictions predictions = classifier.predict(
      [&] { return test; }, {.predict_keys = {"logits"}, .yield_single_examples = false});
  std::vector<float> scores;
  for (Prediction batch; predictions.next(&batch);) {
    const auto* logits = batch["logits"].data_ptr<float>();
    scores.insert(scores.end(), logits, logits + batch["logits"].numel());
  }
  fmt::print("{} {} {}\n", took.count(), cpu_seconds, area(scores, path + "/test"));
}

struct Figures {
  double seconds = 0;
  double cpu = 0;
  double area = 0;
};

// Starts a contestant, alone, on one thread.
Figures ask(const std::string& command) {
  FILE* pipe = popen(("OMP_NUM_THREADS=1 MUSTER_THREADS=1 " + command).c_str(), "r");
  if (pipe == nullptr) throw from_errno(errno, "cannot start " + command);
  Figures figures;
  const int read = std::fscanf(pipe, "%lf %lf %lf", &figures.seconds, &figures.cpu, &figures.area);
  if (pclose(pipe) != 0 || read != 3) throw internal_error("no answer of " + command);
  return figures;
}

void run(const Settings& settings) {
  const Scratch scratch;
  const int64_t rows = settings.quick ? 50'000 : settings.rows;
  write_rows(scratch.path + "/train", rows, 1);
  write_rows(scratch.path + "/test", std::max<int64_t>(rows / 10, 50'000), 2);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const int rounds = settings.quick ? 1 : settings.rounds;
  std::vector<std::pair<std::string, std::string>> contestants{
      {"Muster", fmt::format("{} --data={} 2>/dev/null", self, scratch.path)}};
  for (const auto& [module, package] :
       {std::pair{"xgboost", "python3-xgboost"}, std::pair{"lightgbm", "python3-lightgbm"}}) {
    if (!has_python(module, package)) continue;
    contestants.emplace_back(
        module,
        fmt::format("PYTHONDONTWRITEBYTECODE=1 {} {}/trees_peer.py {} {} {} {} {}", BENCH_PYTHON,
                    BENCH_PEERS, module, scratch.path, kColumns, kTrees, kDepth));
  }
  std::vector<std::vector<double>> seconds(contestants.size()), cpu(contestants.size());
  std::vector<double> areas(contestants.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t c = 0; c < contestants.size(); ++c) {
      const Figures figures = ask(contestants[c].second);
      seconds[c].push_back(figures.seconds);
      cpu[c].push_back(figures.cpu);
      areas[c] = figures.area;
    }
  }
  fmt::print("\n## Boosted trees: {} rows of {} numbers, {} trees of depth {}, one core\n\n", rows,
             kColumns, kTrees, kDepth);
  fmt::print(
      "|  | seconds | speed | CPU seconds | speed by CPU | AUC |\n|---|---|---|---|---|---|\n");
  std::ofstream json(settings.json.empty() ? "/dev/null" : settings.json, std::ios::app);
  for (size_t c = 0; c < contestants.size(); ++c) {
    const double median = estimate(seconds[c]).median;
    const double cpu_median = estimate(cpu[c]).median;
    fmt::print("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.4f} |\n", contestants[c].first,
               median, 1 / estimate_ratio(seconds[c], seconds[0]).median, cpu_median,
               1 / estimate_ratio(cpu[c], cpu[0]).median, areas[c]);
    json << fmt::format(
        "{{\"benchmark\": \"trees\", \"name\": \"{}\", \"seconds\": {}, \"cpu\": {}, \"auc\": "
        "{}}}\n",
        contestants[c].first, median, cpu_median, areas[c]);
  }
  fmt::print("\n{} rounds, in turns; reading the table into bins is in the time.\n", rounds);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Settings settings;
  CLI::App app{"Trains boosted trees on a table of 50 numbers, beside xgboost."};
  app.add_option("--data", settings.data, "be a contestant that reads this directory");
  app.add_option("--json", settings.json, "append the figures to this file");
  app.add_option("--rows", settings.rows, "rows to train on");
  app.add_option("--rounds", settings.rounds, "how often each contestant trains");
  app.add_flag("--quick", settings.quick, "few rows: to see that it works");
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.data.empty()) {
      muster::bench::run(settings);
    } else {
      muster::bench::take_part(settings.data);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
