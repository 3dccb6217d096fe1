// Boosted trees on one core, compared with XGBoost's `hist`, LightGBM and scikit-learn, on a table
// of 50 numbers and on the census: seconds from the table in memory to a model with the area under
// the ROC curve, on rows held out, that all of them reach.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/csv.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"
#include "muster/trees/boosted_trees.h"

namespace muster::bench {
namespace {

constexpr int64_t kColumns = 50;
constexpr int64_t kTrees = 100, kDepth = 6;
constexpr int64_t kOften = 5;  // trees after which a contestant checks its result

struct Settings {
  // The data of a contestant; empty: this is the program.
  std::string data;
  int64_t columns = 0;
  int64_t trees = 0;
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

// The census, its texts as the places they have in sorted order. An unknown text is missing.
constexpr std::array kCensusNumbers{"age",           "capital_gain",   "capital_loss",
                                    "education_num", "hours_per_week", "fnlwgt"};
constexpr std::array kCensusTexts{"workclass",  "education",     "marital_status",
                                  "occupation", "relationship",  "race",
                                  "sex",        "native_country"};

Element read_census(const std::string& path) {
  constexpr int64_t kAll = 1 << 16;
  const auto all = Dataset::from_files({path}, data::csv_format(data::infer_csv(path)))
                       .batch(kAll)
                       .iterator()
                       ->next();
  return *all;
}

void write_census(const std::string& data, const std::string& directory) {
  std::map<std::string, std::map<std::string, float>> codes;
  for (const std::string part : {"train", "test"}) {
    const Element rows = read_census(fmt::format("{}/adult_{}.csv", data, part));
    const int64_t count = rows.rows();
    std::vector<Tensor> columns;
    for (const char* name : kCensusNumbers)
      columns.push_back(rows.at(name).value().tensor().to(kFloat32));
    for (const char* name : kCensusTexts) {
      const Strings& texts = rows.at(name).value().strings();
      std::map<std::string, float>& code = codes[name];
      if (part == "train") {
        for (int64_t i = 0; i < count; ++i) code.emplace(texts[i], 0);
        float next = 0;
        for (auto& [text, number] : code) number = next++;
      }
      Tensor numbers = torch::full({count}, std::numeric_limits<float>::quiet_NaN());
      for (int64_t i = 0; i < count; ++i) {
        const auto known = code.find(std::string(texts[i]));
        if (known != code.end()) numbers.data_ptr<float>()[i] = known->second;
      }
      columns.push_back(numbers);
    }
    const Strings& income = rows.at("income").value().strings();
    Tensor labels = torch::empty({count});
    for (int64_t i = 0; i < count; ++i)
      labels.data_ptr<float>()[i] = income[i] == ">50K" ? 1.0F : 0.0F;
    const auto write = [&](const char* kind, const Tensor& values) {
      std::ofstream(fmt::format("{}/{}.{}", directory, part, kind), std::ios::binary)
          .write(static_cast<const char*>(values.data_ptr()), values.numel() * 4);
    };
    write("features", torch::stack(columns, 1).contiguous());
    write("labels", labels);
  }
}

// A table that was written: features [rows, columns] and labels [rows].
struct Table {
  Tensor features, labels;

  Table(const std::string& path, int64_t columns) {
    const auto rows = static_cast<int64_t>(std::filesystem::file_size(path + ".labels") / 4);
    features = read_floats(path + ".features", {rows, columns});
    labels = read_floats(path + ".labels", {rows});
  }

 private:
  static Tensor read_floats(const std::string& path, Shape shape) {
    Tensor values = torch::empty(shape);
    std::ifstream in(path, std::ios::binary);
    in.read(static_cast<char*>(values.data_ptr()), values.numel() * 4);
    if (!in) throw not_found("cannot read " + path);
    return values;
  }
};

// The exact area under the ROC curve, by ranks.
double area(const std::vector<double>& scores, const Tensor& labels) {
  std::vector<std::pair<double, float>> pairs;
  for (size_t i = 0; i < scores.size(); ++i)
    pairs.emplace_back(scores[i], labels.data_ptr<float>()[i]);
  std::ranges::stable_sort(pairs, {}, &std::pair<double, float>::first);
  double ranks = 0, positive = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i].second == 0) continue;
    ranks += static_cast<double>(i + 1);
    ++positive;
  }
  const double negative = static_cast<double>(pairs.size()) - positive;
  return (ranks - positive * (positive + 1) / 2) / (positive * negative);
}

// The areas after every few trees.
std::vector<double> areas_of(const trees::Ensemble& ensemble, const Table& test) {
  const int64_t columns = test.features.size(1);
  std::vector<double> logits(static_cast<size_t>(test.labels.numel()), ensemble.bias.at(0)), areas;
  for (size_t tree = 0; tree < ensemble.trees.size(); ++tree) {
    const auto* row = test.features.data_ptr<float>();
    for (double& logit : logits) {
      const trees::Tree& one = ensemble.trees[tree];
      logit += one.nodes[static_cast<size_t>(one.leaf(row))].value;
      row += columns;
    }
    if ((tree + 1) % kOften == 0) areas.push_back(area(logits, test.labels));
  }
  return areas;
}

// A contestant: trains once, and prints its seconds, its seconds of CPU time, and its areas.
void take_part(const Settings& settings) {
  set_threads(1);
  const Table train(settings.data + "/train", settings.columns),
      test(settings.data + "/test", settings.columns);
  const Dataset rows = Dataset::from_tensor_slices(
                           Element::tuple({Element::dict({{"x", train.features}}), train.labels}))
                           .batch(16384);
  const Scratch model_dir;
  BoostedTreesClassifier classifier({.n_trees = settings.trees,
                                     .max_depth = kDepth,
                                     .learning_rate = 0.1,
                                     .l2_regularization = 1,
                                     .min_node_weight = 1},
                                    {.model_dir = model_dir.path});
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  classifier.train([&] { return rows; });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const double cpu_seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  fmt::print("{} {} {}\n", took.count(), cpu_seconds,
             fmt::join(areas_of(classifier.ensemble(), test), " "));
}

struct Figures {
  double seconds = 0;
  double cpu = 0;
  std::vector<double> areas;  // after every few trees
};

class Contestant {
 public:
  // `command` ends where the directory, the columns and the number of trees follow.
  Contestant(std::string name, std::string command)
      : name(std::move(name)), command_(std::move(command)) {}

  // Starts it, alone, on one thread.
  Figures ask(const std::string& directory, int64_t columns, int64_t trees) const {
    const std::string whole =
        fmt::format("OMP_NUM_THREADS=1 MUSTER_THREADS=1 {} --data={} --columns={} --trees={}",
                    command_, directory, columns, trees);
    FILE* pipe = popen(whole.c_str(), "r");
    if (pipe == nullptr) throw from_errno(errno, "cannot start " + whole);
    std::string text;
    for (std::array<char, 4096> buffer{};
         std::fgets(buffer.data(), buffer.size(), pipe) != nullptr;)
      text += buffer.data();
    std::istringstream words(text);
    Figures figures;
    words >> figures.seconds >> figures.cpu;
    for (double one = 0; words >> one;) figures.areas.push_back(one);
    if (pclose(pipe) != 0 || figures.areas.empty()) throw internal_error("no answer of " + whole);
    return figures;
  }

  std::string name;
  int64_t trees = kTrees;  // the fewest that reach the area that all of them reach
  std::vector<double> seconds, cpu;
  double area = 0;

 private:
  std::string command_;
};

// Modules of ./dev peers tables where that environment is, else those of Debian.
std::vector<Contestant> all_contestants() {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<Contestant> contestants{{"Muster", "2>/dev/null " + self}};
  const std::string environment = "build/peers/tables/bin/python";
  const bool there = std::filesystem::exists(environment);
  struct Peer {
    const char *name, *module, *package;
  };
  for (const auto& [name, module, package] : {Peer{"XGBoost", "xgboost", "python3-xgboost"},
                                              {"LightGBM", "lightgbm", "python3-lightgbm"},
                                              {"scikit-learn", "sklearn", "python3-sklearn"}}) {
    if (!there && !has_python(module, package)) continue;
    contestants.emplace_back(
        name, fmt::format("PYTHONDONTWRITEBYTECODE=1 {} {}/trees_peer.py {} "
                          "--depth={} --often={}",
                          there ? environment : BENCH_PYTHON, BENCH_PEERS, module, kDepth, kOften));
  }
  return contestants;
}

// The area that the one with the least has after all trees; and how many trees each needs for it.
double agree_on_area(std::vector<Contestant>& contestants, const std::string& directory,
                     int64_t columns) {
  std::vector<std::vector<double>> areas;
  double target = 1;
  for (const Contestant& contestant : contestants) {
    areas.push_back(contestant.ask(directory, columns, kTrees).areas);
    target = std::min(target, areas.back().back());
  }
  for (size_t c = 0; c < contestants.size(); ++c) {
    const auto reached = std::ranges::find_if(areas[c], [&](double one) { return one >= target; });
    contestants[c].trees = kOften * (reached - areas[c].begin() + 1);
  }
  return target;
}

void run_on(const std::string& benchmark, const std::string& title, const std::string& directory,
            int64_t columns, int rounds, const std::string& json_path) {
  std::vector<Contestant> contestants = all_contestants();
  const double target = agree_on_area(contestants, directory, columns);
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& contestant : contestants) {
      const Figures figures = contestant.ask(directory, columns, contestant.trees);
      contestant.seconds.push_back(figures.seconds);
      contestant.cpu.push_back(figures.cpu);
      contestant.area = figures.areas.back();
    }
  }
  fmt::print("\n### Boosted trees: {}, trees of depth {}, to an AUC of {:.4f}, one core\n\n", title,
             kDepth, target);
  fmt::print(
      "| | trees | seconds | speed (95 % interval) | CPU seconds | speed by CPU | AUC |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n");
  std::ofstream json(json_path.empty() ? "/dev/null" : json_path, std::ios::app);
  const Contestant& first = contestants.front();
  for (const Contestant& one : contestants) {
    const double median = estimate(one.seconds).median;
    const double cpu_median = estimate(one.cpu).median;
    const Estimate speed = estimate_ratio(first.seconds, one.seconds);
    fmt::print("| {} | {} | {:.2f} | {:.2f} ({:.2f} to {:.2f}) | {:.2f} | {:.2f} | {:.4f} |\n",
               one.name, one.trees, median, speed.median, speed.low, speed.high, cpu_median,
               estimate_ratio(first.cpu, one.cpu).median, one.area);
    json << nlohmann::ordered_json{{"benchmark", benchmark},
                                   {"contestant", one.name},
                                   {"trees", one.trees},
                                   {"seconds", median},
                                   {"cpu", cpu_median},
                                   {"auc", one.area},
                                   {"reference", first.name},
                                   {"speed", speed.median},
                                   {"speed_low", speed.low},
                                   {"speed_high", speed.high},
                                   {"samples", one.seconds.size()}}
                .dump()
         << '\n';
  }
  fmt::print(
      "\n{} rounds, in turns; reading the table into bins is in the time. Aim: no slower than the "
      "faster one of the others.\n",
      rounds);
  std::fflush(stdout);
}

void run(const Settings& settings) {
  if (const char* data = std::getenv("MUSTER_TEST_DATA"); data != nullptr) {
    const Scratch scratch;
    write_census(std::string(data) + "/tabular/census", scratch.path);
    run_on("trees_census", "the census", scratch.path,
           static_cast<int64_t>(kCensusNumbers.size() + kCensusTexts.size()),
           settings.quick ? 6 : 7 * settings.rounds, settings.json);
  } else {
    fmt::print("MUSTER_TEST_DATA is not set: the census is left out.\n");
  }
  const Scratch scratch;
  const int64_t rows = settings.quick ? 50'000 : settings.rows;
  write_rows(scratch.path + "/train", rows, 1);
  write_rows(scratch.path + "/test", std::max<int64_t>(rows / 10, 50'000), 2);
  run_on("trees", fmt::format("{} rows of {} numbers", rows, kColumns), scratch.path, kColumns,
         settings.quick ? 6 : settings.rounds, settings.json);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Settings settings;
  CLI::App app{"Trains boosted trees on tables, beside XGBoost, LightGBM and scikit-learn."};
  app.add_option("--data", settings.data, "be a contestant that reads this directory");
  app.add_option("--columns", settings.columns)->group("");
  app.add_option("--trees", settings.trees)->group("");
  app.add_option("--json", settings.json, "append the figures to this file");
  app.add_option("--rows", settings.rows, "rows of the table of 50 numbers");
  app.add_option("--rounds", settings.rounds, "how often each contestant trains");
  app.add_flag("--quick", settings.quick, "few rows: to see that it works");
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.data.empty()) {
      muster::bench::run(settings);
    } else {
      muster::bench::take_part(settings);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
