// Reads a CSV file of 13 numbers and 26 texts, as logs of clicks have them, into batches that
// feature columns have resolved, compared with the CSV reader alone on the same file: megabytes a
// second, one core.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/file_system.h"
#include "muster/base/random.h"
#include "muster/data/csv.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/parse_spec.h"
#include "muster/features/resolve.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int kNumbers = 13, kTexts = 26;
constexpr int64_t kBuckets = 10'000, kBatch = 1024;
constexpr double kMegabyte = 1e6, kLeast = 70;

struct Settings {
  std::string file;  // of a contestant; empty: the program
  bool resolve = false;
  std::string json;
  bool quick = false;
};

std::string number_name(int i) { return fmt::format("I{}", i + 1); }
std::string text_name(int i) { return fmt::format("C{}", i + 1); }

// Counts, some of them missing, and texts of 8 digits, some of which are common and most rare.
void write_table(const std::string& path, int rows) {
  Random random(derive_key(39, {}));
  std::string text = "label";
  for (int c = 0; c < kNumbers; ++c) text += "," + number_name(c);
  for (int c = 0; c < kTexts; ++c) text += "," + text_name(c);
  text += '\n';
  for (int row = 0; row < rows; ++row) {
    text += random.uniform() < 0.25 ? '1' : '0';
    for (int c = 0; c < kNumbers; ++c) {
      text += ',';
      if (random.uniform() < 0.9)
        text += std::to_string(static_cast<int64_t>(std::exp(2 * std::abs(random.normal()))));
    }
    for (int c = 0; c < kTexts; ++c) {
      text += ',';
      if (random.uniform() < 0.05) continue;
      const auto rank = static_cast<uint32_t>(std::pow(1e5, random.uniform()));
      text += fmt::format("{:08x}", (rank + static_cast<uint32_t>(c)) * 2654435761U);
    }
    text += '\n';
  }
  local_file_system().write_atomically(path, text).value();
}

std::vector<FeatureColumn> columns() {
  using namespace feature_column;
  std::vector<FeatureColumn> all;
  for (int c = 0; c < kNumbers; ++c)
    all.push_back(numeric_column(number_name(c), {.default_value = {0}}));
  for (int c = 0; c < kTexts; ++c)
    all.push_back(categorical_column_with_hash_bucket(text_name(c), kBuckets));
  return all;
}

// Reads the file again and again, in batches. The loss shows that both contestants read the same:
// the sum of the labels.
void take_part(const Settings& settings) {
  set_threads(1);
  const std::vector<FeatureColumn> all = columns();
  data::CsvOptions options{.columns = feature_column::csv_columns(all), .label = "label"};
  options.columns.push_back({.name = "label"});
  Dataset batches = Dataset::from_files({settings.file}, data::csv_format(options)).batch(kBatch);
  if (settings.resolve) batches = batches.map(feature_column::resolve(all));
  StepPacer pacer;
  double sum = 0;
  while (pacer.next(sum)) {
    sum = 0;
    const auto iterator = batches.iterator();
    while (const auto batch = iterator->next())
      sum += batch->part(1).value().tensor().sum().item<double>();
  }
}

void run(const Settings& settings) {
  const Scratch scratch;
  const std::string path = scratch.path + "/table.csv";
  const int rows = settings.quick ? 10'000 : 40'000;
  write_table(path, rows);
  const double megabytes =
      static_cast<double>(local_file_system().file_size(path).value()) / kMegabyte;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<Contestant> contestants{
      {.name = "CSV, batches of columns", .argv = {self, "--file=" + path, "--resolve"}},
      {.name = "CSV, batches alone", .argv = {self, "--file=" + path}}};
  for (Contestant& contestant : contestants) {
    contestant.rows = rows;
    contestant.same = "sum";
  }
  const Plan plan{.launches = settings.quick ? 1 : 3,
                  .pairs = settings.quick ? 6 : 7,
                  .turns = 2,
                  .steps = 3,
                  .warm_up = 2};
  const std::vector<Result> results = compare(contestants, plan);
  print_table(
      "columns",
      fmt::format("CSV to resolved columns: {} rows of {} numbers and {} texts ({:.1f} MB), "
                  "one core",
                  rows, kNumbers, kTexts, megabytes),
      results, 1, settings.json);
  for (const Result& result : results) {
    const Estimate seconds = estimate(result.seconds);
    fmt::print("{}: {:.0f} MB/s (95 % interval {:.0f} to {:.0f}).\n", result.contestant.name,
               megabytes / seconds.median, megabytes / seconds.high, megabytes / seconds.low);
  }
  print_speed_against(results[0], results[1]);
  fmt::print("Aim: at least {:g} %. {} samples of {} readings of the whole file.\n", kLeast,
             plan.samples(), plan.steps_per_sample());
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Settings settings;
  CLI::App app{"Reads a CSV file into columns, beside the reader alone."};
  app.add_option("--file", settings.file, "be a contestant that reads this file");
  app.add_flag("--resolve", settings.resolve)->group("");
  app.add_option("--json", settings.json, "append the figures to this file");
  app.add_flag("--quick", settings.quick, "few samples: to see that it works");
  CLI11_PARSE(app, argc, argv);
  try {
    if (settings.file.empty()) {
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
