// What reading TFRecords from a bucket and saving to one cost beside curl, which moves the same
// bytes over the same loopback interface from and to the same server: a process of its own that
// keeps the object in memory, so that no disk and no other server's speed counts. Prints MB/s (the
// median of the rounds) and the median of the ratios to curl in the same round; with 20 ms of delay
// in front of each answer as well. "--quick": small files and few rounds, to see that it works.
#include <fmt/format.h>
#include <httplib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string_view>
#include <thread>

#include "benchmarks/support/scratch.h"
#include "muster/base/file_system.h"
#include "muster/base/free_ports.h"
#include "muster/formats/tfrecord.h"
#include "muster/launch/child_process.h"
#include "muster/stores/s3_store.h"

namespace muster::bench {
namespace {

struct Scale {
  size_t bytes = size_t{1} << 30;
  int rounds = 9;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Serves "/bucket/records", the bytes of `content`, and takes whatever is sent; ends when it is
// killed.
[[noreturn]] void serve(int port, const std::string& content, std::chrono::milliseconds delay) {
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(32); };
  server.set_keep_alive_max_count(1'000'000);
  server.set_tcp_nodelay(true);
  server.Get(".*", [&](const httplib::Request&, httplib::Response& response) {
    std::this_thread::sleep_for(delay);  // the distance
    response.set_header("ETag", "\"1-1\"");
    response.set_content_provider(content.size(), "application/octet-stream",
                                  [&](size_t offset, size_t length, httplib::DataSink& sink) {
                                    return sink.write(content.data() + offset,
                                                      std::min(length, size_t{1} << 20));
                                  });
  });
  const auto take = [&](const httplib::Request& request, httplib::Response& response,
                        const httplib::ContentReader& body) {
    std::this_thread::sleep_for(delay);
    body([](const char*, size_t) { return true; });
    response.set_header("ETag", "\"1\"");
    response.set_content(request.has_param("uploads")
                             ? "<InitiateMultipartUploadResult><UploadId>1</UploadId>"
                               "</InitiateMultipartUploadResult>"
                             : "<CompleteMultipartUploadResult><ETag>1</ETag>"
                               "</CompleteMultipartUploadResult>",
                         "application/xml");
  };
  server.Put(".*", take);
  server.Post(".*", take);
  server.listen("127.0.0.1", port);
  _exit(1);
}

// The server in a process of its own.
class Server {
 public:
  Server(const std::string& content, std::chrono::milliseconds delay) : port_(free_port()) {
    pid_ = fork();
    if (pid_ == 0) serve(port_, content, delay);
    httplib::Client client("127.0.0.1", port_);
    for (int tries = 0; tries < 1000 && !client.Head("/bucket/records"); ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // until it listens
  }
  ~Server() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  int port_;
  pid_t pid_;
};

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

void save(FileSystem& files, const std::string& content) {
  const auto writer = files.open_staged("s3://bucket/saved").value();
  constexpr size_t kPiece = size_t{1} << 20;
  for (size_t at = 0; at < content.size(); at += kPiece)
    writer->append(bytes_of(std::string_view(content).substr(at, kPiece))).value();
  writer->commit().value();
}

void compare(const std::string& what, double bytes, int rounds, const std::function<void()>& curl,
             const std::function<void()>& ours) {
  std::vector<double> of_curl, of_ours, ratios;
  for (int round = -1; round < rounds; ++round) {  // the first is to warm up
    const double begin = wall_seconds();
    curl();
    const double middle = wall_seconds();
    ours();
    if (round < 0) continue;
    of_curl.push_back(middle - begin);
    of_ours.push_back(wall_seconds() - middle);
    ratios.push_back(of_curl.back() / of_ours.back());
  }
  fmt::print("  {:34} curl {:6.0f} MB/s  muster {:6.0f} MB/s  {:5.2f} of curl\n", what,
             bytes / median(of_curl) / 1e6, bytes / median(of_ours) / 1e6, median(ratios));
}

void compare_all(const Scale& scale) {
  const Scratch scratch;
  std::string content;
  const std::string record(100'000, 'r');
  int64_t count = 0;
  for (; content.size() < scale.bytes; ++count) formats::append_tfrecord(content, bytes_of(record));
  const std::string file = join_path(scratch.path, "records");
  std::ofstream(file, std::ios::binary) << content;
  const auto bytes = static_cast<double>(content.size());
  fmt::print("{} records of 100 kB, {:.0f} MB, {} rounds\n", count, bytes / 1e6, scale.rounds);
  for (const int delay : {0, 20}) {
    const Server server(content, std::chrono::milliseconds(delay));
    const auto files =
        stores::make_s3_store(stores::S3Options::from({{"AWS_ENDPOINT_URL", server.url()},
                                                       {"AWS_ACCESS_KEY_ID", "key"},
                                                       {"AWS_SECRET_ACCESS_KEY", "secret"}}));
    const std::string url = server.url() + "/bucket/records";
    const std::string behind = delay == 0 ? "" : fmt::format(", {} ms away", delay);
    compare(
        "reading TFRecords" + behind, bytes, scale.rounds,
        [&] {
          run({"curl", "-s", "-o", "/dev/null", url});
        },
        [&] { read_records(*files, count); });
    compare(
        "saving" + behind, bytes, scale.rounds,
        [&] {
          run({"curl", "-s", "-o", "/dev/null", "-T", file, url});
        },
        [&] { save(*files, content); });
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  using namespace muster::bench;
  try {
    Scale scale;
    if (argc > 1 && std::string_view(argv[1]) == "--quick") scale = {50'000'000, 3};
    compare_all(scale);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
