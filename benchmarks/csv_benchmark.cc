// A CSV file of 40 columns, 30 of decimals and 10 of whole numbers, into batches of tensors on one
// core, compared with pandas.read_csv and tf.data: megabytes a second.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/data/csv.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int kDecimals = 30;
constexpr int kWhole = 10;
constexpr double kMegabyte = 1e6;

struct Settings {
  std::string file;  // of a contestant; empty: the program
  std::string json;
  bool quick = false;
};

// Decimals of 4 to 9 digits as data sets have them, and whole numbers up to a million.
void write_table(const std::string& path, int rows) {
  Random random(derive_key(40, {}));
  std::string text;
  for (int column = 0; column < kDecimals + kWhole; ++column) {
    text += fmt::format("{}c{}", column == 0 ? "" : ",", column);
  }
  text += '\n';
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < kDecimals + kWhole; ++column) {
      if (column > 0) text += ',';
      if (column < kDecimals) {
        text += fmt::format("{:.{}f}", 200 * random.uniform() - 100, 2 + column % 6);
      } else {
        text += std::to_string(random.uniform_below(column % 2 == 0 ? 100 : 1'000'000));
      }
    }
    text += '\n';
  }
  local_file_system().write_atomically(path, text).value();
}

// Reads the file again and again. The loss shows that both contestants read the same: the sum of
// the first column of the first block.
void take_part(const std::string& path) {
  set_threads(1);
  const auto format = data::csv_format(data::infer_csv(path));
  StepPacer pacer;
  double sum = 0;
  while (pacer.next(sum)) {
    sum = 0;
    const auto reader = format->open(local_file_system(), path);
    Element rows;
    bool first = true;
    while (reader->read(1024, &rows) > 0) {
      if (first) sum = rows.values().front().tensor().to(at::kDouble).sum().item<double>();
      first = false;
    }
  }
}

void run(const Settings& settings) {
  const Scratch scratch;
  const std::string path = scratch.path + "/table.csv";
  const int rows = settings.quick ? 10'000 : 30'000;
  write_table(path, rows);
  const double megabytes =
      static_cast<double>(local_file_system().file_size(path).value()) / kMegabyte;
  std::vector<Contestant> contestants{
      {.name = "Muster, csv_format",
       .argv = {std::filesystem::read_symlink("/proc/self/exe"), "--file=" + path},
       .rows = rows,
       .same = "sum"}};
  const auto add = [&](Contestant peer) {
    peer.rows = rows;
    contestants.push_back(std::move(peer));
  };
  const bool pandas = has_python("pandas", "python3-pandas");
  Contestant peer = python_peer("pandas.read_csv", {"csv_pandas.py", path});
  peer.same = "sum";
  if (pandas) add(peer);
  if (in_environment("today", &peer)) {
    peer.name = "pandas.read_csv of today";
    add(peer);
  }
  add_tf_data({"--data=csv", "--path=" + path, "--batch=1024",
               fmt::format("--batches={}", (rows + 1023) / 1024)},
              rows, &contestants);
  const Plan plan{.launches = settings.quick ? 1 : 3,
                  .pairs = settings.quick ? 6 : 7,
                  .turns = 2,
                  .steps = 3,
                  .warm_up = 2};
  const std::vector<Result> results = compare(contestants, plan);
  print_table(
      "csv",
      fmt::format("CSV: {} rows of 40 numeric columns ({:.1f} MB), one core", rows, megabytes),
      results, results.size() > 1 ? 1 : 0, settings.json);
  for (const Result& result : results) {
    const Estimate seconds = estimate(result.seconds);
    fmt::print("{}: {:.0f} MB/s (95 % interval {:.0f} to {:.0f}).\n", result.contestant.name,
               megabytes / seconds.median, megabytes / seconds.high, megabytes / seconds.low);
  }
  for (size_t c = 1; c < results.size(); ++c) {
    const Estimate ratio = estimate_ratio(results[c].seconds, results[0].seconds);
    fmt::print("Muster against {}: {:.2f} times as fast (95 % interval {:.2f} to {:.2f}).\n",
               results[c].contestant.name, ratio.median, ratio.low, ratio.high);
  }
  fmt::print("Promised: 300 MB/s where pandas makes 110.\n");
  fmt::print("{} samples of {} readings of the whole file, from the page cache.\n", plan.samples(),
             plan.steps_per_sample());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Settings settings;
  CLI::App app{"Reads a CSV file of 40 columns, beside pandas.read_csv."};
  app.add_option("--file", settings.file, "be a contestant that reads this file");
  app.add_option("--json", settings.json, "append the figures to this file");
  app.add_flag("--quick", settings.quick, "few samples: to see that it works");
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.file.empty()) {
      muster::bench::run(settings);
    } else {
      muster::bench::take_part(settings.file);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
