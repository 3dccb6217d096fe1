// Linear classifiers on one core. First, how long it takes from rows in memory to a model of a
// given log-loss, compared with scikit-learn, xgboost and a loop by hand. Then examples a second on
// rows of 13 numbers and 26 categories, compared with a bare loop over the same arrays; and on
// these and on the rows of the first part, compared with tf.estimator's own LinearClassifier and
// others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/linear/clicks.h"
#include "benchmarks/linear/sparse_rows.h"
#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr double kMostMilliseconds = 5, kMostTimes = 1.3;

struct Options {
  std::string json, only;
  bool quick = false;
  std::string way;  // of a contestant; empty: the program
  SparseRows rows;  // likewise
  int64_t batch = 0;
};

Contestant self(const std::string& name, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), std::filesystem::read_symlink("/proc/self/exe").string());
  return {.name = name, .argv = std::move(arguments)};
}

void run_sparse_rows(const Options& options) {
  const Scratch scratch;
  const SparseRows rows = find_or_write_sparse_rows(scratch.path);
  const std::string target = fmt::format("{}", rows.target);
  const auto ours = [&](const char* name, const char* way) {
    return self(name, {fmt::format("--way={}", way), "--train=" + rows.train, "--test=" + rows.test,
                       "--target=" + target});
  };
  std::vector<Contestant> contestants{ours("Muster, LinearClassifier, ids", "ids"),
                                      ours("Muster, LinearClassifier, dense rows", "dense"),
                                      ours("a loop by hand", "hand")};
  const auto theirs = [&](const char* name, const char* kind) {
    contestants.push_back(
        python_peer(name, {"linear_peer.py", kind, rows.train, rows.test, target}));
  };
  if (has_python("sklearn", "python3-sklearn")) {
    theirs("scikit-learn, SGDClassifier, averaged", "sgd");
    theirs("scikit-learn, LogisticRegression, lbfgs", "lbfgs");
    if (has_python("xgboost", "python3-xgboost")) theirs("xgboost, gblinear", "gblinear");
  }
  constexpr int64_t kRows = 32560;
  for (Contestant& contestant : contestants) contestant.rows = kRows;
  const Plan plan{.launches = options.quick ? 1 : 3,
                  .pairs = options.quick ? 6 : 7,
                  .turns = 2,
                  .steps = 10,
                  .warm_up = 5};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("linear_rows",
              fmt::format("One core: {} rows of 14 ids out of 123{}, to a log-loss of {:.4g} on "
                          "other rows; a step trains a model",
                          kRows, rows.real ? " (a9a)" : ", generated", rows.target),
              results, 0, options.json);
  for (const Result& result : results) {
    const Estimate ms = estimate(result.seconds);
    fmt::print("{}: {:.2f} ms (95 % interval {:.2f} to {:.2f}){}.\n", result.contestant.name,
               1e3 * ms.median, 1e3 * ms.low, 1e3 * ms.high,
               &result == &results[0] ? fmt::format("; aim: below {:g}", kMostMilliseconds) : "");
  }
  fmt::print("{} samples of {} models.\n", plan.samples(), plan.steps_per_sample());
}

void run_clicks(const Options& options, int64_t batch) {
  const std::string size = fmt::format("--batch={}", batch);
  std::vector<Contestant> contestants{
      self("Muster, LinearClassifier", {"--way=clicks", size}),
      self("a bare loop over the same arrays", {"--way=clicks_by_hand", size})};
  for (Contestant& contestant : contestants) {
    contestant.rows = batch;
    contestant.same = "clicks";
  }
  const Plan plan = options.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = 100}
                                  : Plan{.steps = 100};
  const std::vector<Result> results = compare(contestants, plan);
  print_table(fmt::format("linear_clicks_{}", batch),
              fmt::format("One core: {} numbers and {} categories of {} buckets, batch {}, Ftrl",
                          kClickNumbers, kClickCategories, kClickBuckets, batch),
              results, 1, options.json);
  const Estimate ratio = estimate_ratio(results[0].seconds, results[1].seconds);
  fmt::print(
      "Muster takes {:.2f} times as long as the bare loop (95 % interval {:.2f} to {:.2f}); aim: "
      "{:g} at most.\n{} samples of {} steps.\n",
      ratio.median, ratio.low, ratio.high, kMostTimes, plan.samples(), plan.steps_per_sample());
}

// Muster's is the first of the contestants, each of which makes steps of `batch` rows.
void run_originals(const Options& options, const std::string& name, const std::string& title,
                   std::vector<Contestant> contestants, int64_t batch) {
  for (Contestant& contestant : contestants) contestant.rows = batch;
  const Plan plan = options.quick ? Plan{.launches = 1, .pairs = 6, .turns = 2, .steps = 100}
                                  : Plan{.launches = 2, .pairs = 8, .turns = 2, .steps = 100};
  compare_with_first("originals_" + name, fmt::format("{}, batch {}", title, batch), contestants,
                     plan, options.json);
}

void run_original_rows(const Options& options) {
  constexpr int64_t kBatch = 512;
  const Scratch scratch;
  const SparseRows rows = find_or_write_sparse_rows(scratch.path);
  const std::string batch = fmt::format("--batch={}", kBatch);
  std::vector<Contestant> contestants{
      self("Muster, LinearClassifier", {"--way=batches", "--train=" + rows.train, batch})};
  add_peer("tf.estimator 2.15", "tensorflow",
           {"tensorflow_peer.py", "--task=sparse_rows", "--data=" + rows.train, batch}, kBatch,
           &contestants);
  add_peer("scikit-learn, SGDClassifier", "tables",
           {"linear_peer.py", "batches", rows.train, std::to_string(kBatch)}, kBatch, &contestants);
  run_originals(options, "rows",
                fmt::format("a linear classifier of 14 ids out of 123{}",
                            rows.real ? " (a9a)" : ", generated"),
                std::move(contestants), kBatch);
}

void run_original_clicks(const Options& options) {
  constexpr int64_t kBatch = 512;
  const Scratch scratch;
  write_clicks(scratch.path);
  const std::string batch = fmt::format("--batch={}", kBatch), data = "--data=" + scratch.path;
  std::vector<Contestant> contestants{self("Muster, LinearClassifier", {"--way=clicks", batch})};
  const auto add = [&](const char* name, const char* environment,
                       const std::vector<std::string>& words) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.end(), {data, batch});
    add_peer(name, environment, arguments, kBatch, &contestants);
  };
  add("tf.estimator 2.15", "tensorflow", {"tensorflow_peer.py", "--task=clicks"});
  add("Keras 2.15", "tensorflow", {"tables_keras.py", "--task=clicks"});
  add("Keras 3 on TensorFlow", "today", {"tables_keras.py", "--task=clicks"});
  add("PyTorch 2.15, Adagrad", "today", {"clicks_torch.py"});
  run_originals(options, "clicks",
                fmt::format("a linear classifier of {} numbers and {} categories", kClickNumbers,
                            kClickCategories),
                std::move(contestants), kBatch);
}

void run(const Options& options) {
  const auto wanted = [&](const char* part) {
    return options.only.empty() || options.only == part;
  };
  if (wanted("rows")) run_original_rows(options);
  if (wanted("clicks")) run_original_clicks(options);
  if (wanted("loss")) run_sparse_rows(options);
  for (const int64_t batch : {512, 4096}) {
    if (wanted("loops")) run_clicks(options, batch);
  }
}

void take_part_or_run(const Options& options) {
  if (options.way.empty()) return run(options);
  set_threads(1);
  if (options.way == "ids") return fit_by_estimator(options.rows);
  if (options.way == "dense") return fit_by_dense_estimator(options.rows);
  if (options.way == "hand") return fit_by_hand(options.rows);
  if (options.way == "batches") return train_on_batches(options.rows, options.batch);
  if (options.way == "clicks") return train_clicks_by_estimator(options.batch);
  train_clicks_by_hand(options.batch);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Options options;
  CLI::App app{"Linear classifiers, beside scikit-learn, xgboost and loops by hand."};
  app.add_option("--json", options.json, "Where to append the figures as lines of JSON");
  app.add_flag("--quick", options.quick, "Few samples, to see that it works");
  app.add_option("--only", options.only, "Only this part")
      ->check(CLI::IsMember({"rows", "clicks", "loss", "loops"}));
  app.add_option("--way", options.way)->group("");
  app.add_option("--train", options.rows.train)->group("");
  app.add_option("--test", options.rows.test)->group("");
  app.add_option("--target", options.rows.target)->group("");
  app.add_option("--batch", options.batch)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    muster::bench::take_part_or_run(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
