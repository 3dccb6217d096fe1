// The cost of reading TFRecords from a bucket and of saving to one, compared with curl, which moves
// the same bytes over the same loopback interface from and to the same server: a process of its own
// that keeps the object in memory, so that no disk and no other server's speed counts. Prints MB/s
// (the median of the rounds) and the median of the ratios to curl in the same round; with 20 ms of
// delay in front of each answer as well, both over https, as buckets are reached, and over http.
// Uploads to S3 go as they do by default, which signs what is sent over http with its SHA-256, and
// without that. "--quick": small files and few rounds, to see that it works. An argument selects
// the lines that contain it: "saving".
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string_view>

#include "benchmarks/buckets/object_server.h"
#include "benchmarks/support/scratch.h"
#include "muster/base/file_system.h"
#include "muster/formats/tfrecord.h"
#include "muster/launch/certificates.h"
#include "muster/launch/child_process.h"
#include "muster/stores/gcs_store.h"
#include "muster/stores/s3_store.h"

namespace muster::bench {
namespace {

struct Scale {
  size_t bytes = size_t{1} << 30;
  int rounds = 9;
  std::string only;  // in the lines to measure; empty: all
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run(const std::vector<std::string>& command) {
  launch::ChildProcess child({.argv = command});
  const auto ended = child.wait_for(std::chrono::minutes(5));
  if (!ended || !ended->ok()) throw internal_error("curl failed");
}

void read_records(FileSystem& files, int64_t count) {
  auto reader = formats::TfrecordReader::open(files, "s3://bucket/records").value();
  Bytes payload;
  while (reader.read(&payload).value()) --count;
  if (count != 0) throw internal_error("records were lost");
}

void save(FileSystem& files, const std::string& path, const std::string& content) {
  const auto writer = files.open_staged(path).value();
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; at < content.size(); at += kPiece)
    writer->append(bytes_of(std::string_view(content).substr(at, kPiece))).value();
  writer->commit().value();
}

// Measures the selected cases, compared with curl, and prints lines.
class Comparison {
 public:
  Comparison(const Scale& scale, double bytes) : scale_(scale), bytes_(bytes) {}

  void compare(const std::string& what, const std::vector<std::string>& curl,
               const std::function<void()>& ours) const {
    if (what.find(scale_.only) == std::string::npos) return;
    std::vector<double> of_curl, of_ours, ratios;
    for (int round = -1; round < scale_.rounds; ++round) {  // the first is to warm up
      const double begin = wall_seconds();
      run(curl);
      const double middle = wall_seconds();
      ours();
      if (round < 0) continue;
      of_curl.push_back(middle - begin);
      of_ours.push_back(wall_seconds() - middle);
      ratios.push_back(of_curl.back() / of_ours.back());
    }
    fmt::print("  {:44} curl {:6.0f} MB/s  muster {:6.0f} MB/s  {:5.2f} of curl\n", what,
               bytes_ / median(of_curl) / 1e6, bytes_ / median(of_ours) / 1e6, median(ratios));
    std::fflush(stdout);
  }

 private:
  const Scale scale_;
  const double bytes_;
};

std::unique_ptr<FileSystem> s3_store(const std::string& url, const std::string& authority,
                                     const char* unsigned_http) {
  return stores::make_s3_store(stores::S3Options::from({{"AWS_ENDPOINT_URL", url},
                                                        {"AWS_CA_BUNDLE", authority},
                                                        {"MUSTER_S3_UNSIGNED_HTTP", unsigned_http},
                                                        {"AWS_ACCESS_KEY_ID", "key"},
                                                        {"AWS_SECRET_ACCESS_KEY", "secret"}}));
}

void compare_all(const Scale& scale) {
  const Scratch scratch;
  std::string content;
  const std::string record(100'000, 'r');
  int64_t count = 0;
  for (; content.size() < scale.bytes; ++count) formats::append_tfrecord(content, bytes_of(record));
  const std::string file = join_path(scratch.path, "records");
  std::ofstream(file, std::ios::binary) << content;
  const std::string folder = join_path(scratch.path, "tls");
  launch::write_certificates(launch::make_certificates({"127.0.0.1"}, 1), folder);
  const std::string authority = join_path(folder, "ca.pem");
  fmt::print("{} records of 100 kB, {:.0f} MB, {} rounds\n", count,
             static_cast<double>(content.size()) / 1e6, scale.rounds);
  const Comparison comparison(scale, static_cast<double>(content.size()));
  for (const bool tls : {true, false}) {
    for (const int delay : {0, 20}) {
      const ObjectServer server(content, std::chrono::milliseconds(delay), tls ? folder : "");
      const std::string url = server.url() + "/bucket/records";
      const std::string where = fmt::format("{}{}", tls ? ", https" : ", http",
                                            delay == 0 ? "" : fmt::format(", {} ms away", delay));
      std::vector<std::string> get = {"curl", "-s", "--cacert", authority, "-o", "/dev/null", url};
      std::vector<std::string> put = get;
      put.insert(put.begin() + 1, {"-T", file});
      const auto files = s3_store(server.url(), authority, "");
      comparison.compare("reading TFRecords" + where, get, [&] { read_records(*files, count); });
      comparison.compare("saving to S3" + where, put,
                         [&] { save(*files, "s3://bucket/saved", content); });
      if (!tls) {
        const auto quick = s3_store(server.url(), authority, "1");
        comparison.compare("saving to S3, unsigned" + where, put,
                           [&] { save(*quick, "s3://bucket/saved", content); });
      }
      const auto google = stores::make_gcs_store(stores::GcsOptions::from(
          {{"STORAGE_EMULATOR_HOST", server.url()}, {"SSL_CERT_FILE", authority}}));
      comparison.compare("saving to Google" + where, put,
                         [&] { save(*google, "gs://bucket/saved", content); });
    }
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  try {
    Scale scale;
    for (int i = 1; i < argc; ++i) {
      if (std::string_view(argv[i]) == "--quick") {
        scale.bytes = 50'000'000;
        scale.rounds = 3;
      } else {
        scale.only = argv[i];
      }
    }
    compare_all(scale);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
