// Shuffled batches of 64 of what MNIST is: 60000 rows of 784 bytes with labels, in memory, one
// thread; compared with a gather written by hand, PyTorch's DataLoader and tf.data. And whether
// memory stays flat when a list of files is read again and again.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/file_system.h"
#include "muster/data/dataset.h"
#include "muster/data/tfrecord.h"
#include "muster/formats/tfrecord.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kRows = 60'000;
constexpr int64_t kPixels = 784;
constexpr int64_t kBatch = 64;
// Batches that are a step of the comparison: one takes too little time to be measured alone.
constexpr int kBatches = 20;

struct Settings {
  std::string way;  // of a contestant; empty: the program
  std::string json;
  bool quick = false;
};

Tensor images() { return (torch::arange(kRows * kPixels) % 251).to(kUInt8).view({kRows, kPixels}); }
Tensor labels() { return torch::arange(kRows) % 10; }

void with_dataset() {
  const Dataset dataset = Dataset::from_tensor_slices(Element::tuple({images(), labels()}))
                              .shuffle(kRows)
                              .repeat()
                              .batch(kBatch);
  const auto iterator = dataset.iterator();
  StepPacer pacer;
  while (pacer.next()) {
    for (int i = 0; i < kBatches; ++i) iterator->next();
  }
}

// What one writes who wants nothing but these batches.
void by_hand() {
  const Tensor all_images = images(), all_labels = labels();
  const auto* pixels = all_images.data_ptr<uint8_t>();
  const auto* numbers = all_labels.data_ptr<int64_t>();
  std::vector<int64_t> order(kRows);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  size_t at = order.size();
  StepPacer pacer;
  while (pacer.next()) {
    for (int i = 0; i < kBatches; ++i) {
      if (at + kBatch > order.size()) {
        std::shuffle(order.begin(), order.end(), random);
        at = 0;
      }
      Tensor batch = torch::empty({kBatch, kPixels}, kUInt8);
      Tensor batch_labels = torch::empty({kBatch}, kInt64);
      auto* to = batch.data_ptr<uint8_t>();
      auto* to_labels = batch_labels.data_ptr<int64_t>();
      for (int64_t row = 0; row < kBatch; ++row) {
        const int64_t index = order[at++];
        std::memcpy(to + row * kPixels, pixels + index * kPixels, kPixels);
        to_labels[row] = numbers[index];
      }
    }
  }
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Ten files of 10 MB, records of 3 KB, in batches, again and again.
void stay_flat(const Settings& settings) {
  const Scratch scratch;
  std::vector<std::string> files;
  const std::string record(3000, 'r');
  for (int f = 0; f < 10; ++f) {
    files.push_back(fmt::format("{}/{}.tfrecord", scratch.path, f));
    auto writer = formats::TfrecordWriter::open(local_file_system(), files.back()).value();
    for (int i = 0; i < 3333; ++i) writer.write(bytes_of(record)).value();
    writer.close().value();
  }
  const int passes = settings.quick ? 10 : 100;
  const Dataset dataset = Dataset::from_files(files, data::tfrecord_format())
                              .shuffle(1000)
                              .repeat(passes)
                              .batch(kBatch)
                              .prefetch();
  const auto iterator = dataset.iterator();
  double after_first = 0;
  int64_t bytes = 0;
  while (const auto element = iterator->next()) {
    bytes += element->rows() * static_cast<int64_t>(record.size());
    if (after_first == 0 && bytes >= 100'000'000) after_first = peak_megabytes();
  }
  fmt::print(
      "\n100 MB of files, {} passes ({:.1f} GB): peak memory {:.0f} MB after the first, {:.0f} MB "
      "at the end.\n",
      passes, static_cast<double>(bytes) * 1e-9, after_first, peak_megabytes());
}

void run(const Settings& settings) {
  const auto self = std::filesystem::read_symlink("/proc/self/exe").string();
  const int64_t rows = kBatch * kBatches;
  std::vector<Contestant> contestants{
      {.name = "a gather by hand", .argv = {self, "--way=hand"}, .rows = rows},
      {.name = "Muster, shuffle and batch", .argv = {self, "--way=dataset"}, .rows = rows}};
  const std::string batch = fmt::format("--batch={}", kBatch);
  const std::string batches = fmt::format("--batches={}", kBatches);
  const auto add = [&](Contestant peer) {
    peer.rows = rows;
    contestants.push_back(std::move(peer));
  };
  std::vector<std::string> loader{"input_torch.py", "--data=slices", batch, batches};
  if (has_python("torch", "python3-torch"))
    add(python_peer("PyTorch of Debian, DataLoader without workers", loader));
  Contestant today = python_peer("PyTorch 2.15, DataLoader without workers", loader);
  if (in_environment("today", &today)) {
    add(today);
    today.name = "PyTorch 2.15, DataLoader that asks for whole batches";
    today.argv.emplace_back("--whole");
    add(today);
  }
  add_tf_data({"--data=slices", batch, batches}, rows, &contestants);
  const Plan plan{.launches = settings.quick ? 1 : 3,
                  .pairs = settings.quick ? 6 : 7,
                  .turns = 2,
                  .steps = 20,
                  .warm_up = 20};
  const std::vector<Result> results = compare(contestants, plan);
  print_table("input", "Shuffled batches of 64 rows of 784 bytes, one thread", results, 0,
              settings.json);
  const Estimate ratio = estimate_ratio(results[0].seconds, results[1].seconds);
  fmt::print(
      "Muster: {:.1f} % of the gather by hand (95 % interval {:.1f} to {:.1f} %); promised: 100.\n",
      100 * ratio.median, 100 * ratio.low, 100 * ratio.high);
  for (size_t c = 2; c < results.size(); ++c) print_speed_against(results[1], results[c]);
  fmt::print("{} samples of {} batches.\n", plan.samples(), plan.steps_per_sample() * kBatches);
  std::fflush(stdout);
  stay_flat(settings);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  muster::bench::Settings settings;
  CLI::App app{"Shuffled batches of rows in memory, beside a gather by hand and PyTorch."};
  app.add_option("--way", settings.way, "be the contestant \"dataset\" or \"hand\"");
  app.add_option("--json", settings.json, "append the figures to this file");
  app.add_flag("--quick", settings.quick, "few samples: to see that it works");
  CLI11_PARSE(app, argc, argv);
  try {
    muster::set_threads(1);
    if (settings.way.empty()) {
      muster::bench::run(settings);
    } else if (settings.way == "hand") {
      muster::bench::by_hand();
    } else {
      muster::bench::with_dataset();
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
