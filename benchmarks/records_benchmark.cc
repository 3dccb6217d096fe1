// The cost of turning a TFRecord file of tf.Examples into batches of tensors, on one thread: a
// plain read of the file, framing with checksums alone, records as strings, and whole batches,
// alternating in one process over files in the page cache. Prints MB/s of the file in CPU time (the
// median of the rounds) and the median of the ratios to the plain read of the same round.
// "--quick": small files and few rounds, to see that it works.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string_view>

#include "benchmarks/support/scratch.h"
#include "muster/base/file_system.h"
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

struct Scale {
  int64_t bytes = 200'000'000;  // of a file
  int rounds = 21;
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

void compare(const std::string& folder, int64_t width, const Scale& scale) {
  const std::string path = join_path(folder, fmt::format("{}.tfrecord", width));
  const int64_t count = write(path, width, scale.bytes);
  const auto bytes = static_cast<double>(local_file_system().file_size(path).value());
  const data::ExampleParser parse({{"x", data::FixedLenFeature{{width}, kFloat32}},
                                   {"label", data::FixedLenFeature{{}, kInt64}}});
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
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  try {
    muster::set_threads(1);
    Scale scale;
    if (argc > 1 && std::string_view(argv[1]) == "--quick") scale = {20'000'000, 5};
    const Scratch scratch;
    compare(scratch.path, 740, scale);
    compare(scratch.path, 12, scale);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
