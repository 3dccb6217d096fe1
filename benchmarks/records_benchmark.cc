// The cost of turning a TFRecord file of tf.Examples into batches of tensors, on one thread: a
// plain read of the file, framing with checksums alone, records as strings, and whole batches,
// alternating in one process over files in the page cache. Prints MB/s of the file in CPU time (the
// median of the rounds) and the median of the ratios to the plain read of the same round. Then the
// whole pipeline beside those of TensorFlow, as contestants that take turns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>

#include "benchmarks/support/compare.h"
#include "benchmarks/support/python_peer.h"
#include "benchmarks/support/scratch.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/file_system.h"
#include "muster/data/dataset.h"
#include "muster/data/example.h"
#include "muster/data/tfrecord.h"
#include "muster/formats/example.h"
#include "muster/formats/tfrecord.h"
#include "muster/tensor/features.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

constexpr int64_t kBatch = 64;
constexpr int kBatches = 20;  // that are a step of a contestant

struct Scale {
  int64_t bytes = 200'000'000;  // of a file
  int rounds = 21;
  int launches = 3;  // of contestants
};

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Examples of `width` floats and a label. Returns how many.
int64_t write(const std::string& path, int64_t width, int64_t bytes) {
  std::vector<float> values(static_cast<size_t>(width));
  auto writer = formats::TfrecordWriter::open(local_file_system(), path).value();
  int64_t count = 0;
  for (int64_t written = 0; written < bytes; ++count) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(count) + static_cast<float>(i);
    }
    const std::string record =
        formats::encode_example({{{"label", std::vector<int64_t>{count % 10}}, {"x", values}}});
    writer.write(bytes_of(record)).value();
    written += static_cast<int64_t>(record.size() + formats::kTfrecordOverhead);
  }
  writer.close().value();
  return count;
}

void plain_read(const std::string& path) {
  const auto file = local_file_system().open_reader(path).value();
  std::vector<std::byte> buffer(1'000'000);
  uint64_t offset = 0;
  while (const size_t got = file->read_at(offset, buffer).value()) offset += got;
}

// All of these return the number of records, which keeps the work from being left out.
int64_t framing(const std::string& path) {
  auto reader = formats::TfrecordReader::open(local_file_system(), path).value();
  Bytes payload;
  int64_t count = 0;
  while (reader.read(&payload).value()) ++count;
  return count;
}

int64_t strings(const std::string& path) {
  const auto reader = data::tfrecord_format()->open(local_file_system(), path);
  Element rows;
  int64_t count = 0;
  while (const int64_t got = reader->read(kBatch, &rows)) count += got;
  return count;
}

int64_t batches(const std::string& path, const data::ExampleParser& parse) {
  const auto reader = data::tfrecord_format()->open(local_file_system(), path);
  Element rows;
  int64_t count = 0;
  while (reader->read(kBatch, &rows) > 0) count += parse(rows).rows();
  return count;
}

data::ExampleParser parser_of(int64_t width) {
  return data::ExampleParser({{"x", data::FixedLenFeature{{width}, kFloat32}},
                              {"label", data::FixedLenFeature{{}, kInt64}}});
}

// Batches of an input pipeline, again and again, as a contestant.
void take_part(const std::string& path, int64_t width) {
  const Dataset dataset = Dataset::from_files({path}, data::tfrecord_format())
                              .repeat()
                              .batch(kBatch)
                              .map(parser_of(width));
  const auto iterator = dataset.iterator();
  StepPacer pacer;
  while (pacer.next()) {
    for (int i = 0; i < kBatches; ++i) iterator->next();
  }
}

// The pipeline beside those of TensorFlow.
void compare_pipelines(const std::string& path, int64_t width, const Scale& scale) {
  const int64_t rows = kBatch * kBatches;
  const std::vector<std::string> arguments{"--path=" + path, fmt::format("--width={}", width)};
  std::vector<Contestant> contestants{{.name = "Muster, from_files, batch and map",
                                       .argv = {std::filesystem::read_symlink("/proc/self/exe")},
                                       .rows = rows}};
  contestants[0].argv.insert(contestants[0].argv.end(), arguments.begin(), arguments.end());
  std::vector<std::string> words{"--data=records", fmt::format("--batch={}", kBatch),
                                 fmt::format("--batches={}", kBatches)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  add_tf_data(words, rows, &contestants);
  if (contestants.size() == 1) return;
  const std::vector<Result> results =
      compare(contestants,
              {.launches = scale.launches, .pairs = 6, .turns = 2, .steps = 20, .warm_up = 20});
  print_table("records", fmt::format("Batches of 64 tf.Examples of {} floats, one core", width),
              results, 0, "");
  for (size_t c = 1; c < results.size(); ++c) print_speed_against(results[0], results[c]);
}

void measure(const std::string& folder, int64_t width, const Scale& scale) {
  const std::string path = join_path(folder, fmt::format("{}.tfrecord", width));
  const int64_t count = write(path, width, scale.bytes);
  const auto bytes = static_cast<double>(local_file_system().file_size(path).value());
  const data::ExampleParser parse = parser_of(width);
  struct Way {
    const char* name;
    std::function<int64_t()> run;
    std::vector<double> seconds;
    std::vector<double> speed;  // against the plain read of the round
  };
  std::vector<Way> ways = {
      {"plain read, blocks of 1 MB", [&] { return plain_read(path), count; }, {}, {}},
      {"framing and checksums", [&] { return framing(path); }, {}, {}},
      {"records as strings[64]", [&] { return strings(path); }, {}, {}},
      {"batches of 64 examples", [&] { return batches(path, parse); }, {}, {}},
  };
  for (int round = -1; round < scale.rounds; ++round) {  // the first is to warm up
    for (Way& way : ways) {
      const double begin = cpu_seconds();
      if (way.run() != count) throw internal_error(fmt::format("{} lost records", way.name));
      if (round < 0) continue;
      way.seconds.push_back(cpu_seconds() - begin);
      way.speed.push_back(ways[0].seconds.back() / way.seconds.back());
    }
  }
  fmt::print("{} records of {:.0f} bytes, {:.0f} MB, {} rounds\n", count,
             bytes / static_cast<double>(count), bytes / 1e6, scale.rounds);
  for (const Way& way : ways) {
    const double seconds = median(way.seconds);
    fmt::print("  {:28} {:8.0f} MB/s  {:10.0f} records/s  {:5.2f} of the plain read\n", way.name,
               bytes / seconds / 1e6, static_cast<double>(count) / seconds, median(way.speed));
  }
  std::fflush(stdout);
  compare_pipelines(path, width, scale);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  CLI::App app("TFRecord files of tf.Examples to batches of tensors.");
  bool quick = false;
  std::string path;
  int64_t width = 0;
  app.add_flag("--quick", quick, "Few samples, to see that it works");
  app.add_option("--path", path)->group("");
  app.add_option("--width", width)->group("");
  CLI11_PARSE(app, argc, argv);
  try {
    muster::set_threads(1);
    if (!path.empty()) {
      take_part(path, width);
      return 0;
    }
    const Scale scale = quick ? Scale{20'000'000, 5, 1} : Scale{};
    const Scratch scratch;
    measure(scratch.path, 740, scale);
    measure(scratch.path, 12, scale);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
