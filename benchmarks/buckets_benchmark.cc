// What reading TFRecords from a bucket and saving to one cost beside curl, which moves the same
// bytes over the same loopback interface from and to the same server: a process of its own that
// keeps the object in memory, so that no disk and no other server's speed counts. Prints MB/s (the
// median of the rounds) and the median of the ratios to curl in the same round; with 20 ms of delay
// in front of each answer as well. "--quick": small files and few rounds, to see that it works.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string_view>
#include <thread>

#include "benchmarks/support/scratch.h"
#include "muster/base/file_system.h"
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

// Sends all of `bytes`; whether somebody took them.
bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// The number behind `mark` in a head, or `otherwise`.
size_t number_behind(const std::string& head, const std::string& mark, size_t otherwise) {
  const size_t at = head.find(mark);
  return at == std::string::npos ? otherwise : std::stoull(head.substr(at + mark.size()));
}

// Answers the requests of one connection: gives `content` or a range of it, and takes whatever is
// sent. It does as little as a server can, so that the clients are what is measured.
void answer(int socket, const std::string& content, std::chrono::milliseconds delay) {
  std::string buffer(size_t{1} << 20, '\0');
  std::string head;
  while (true) {
    size_t end;
    while ((end = head.find("\r\n\r\n")) == std::string::npos) {
      const ssize_t got = recv(socket, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      head.append(buffer, 0, static_cast<size_t>(got));
    }
    const size_t body = number_behind(head, "Content-Length: ", 0);
    if (body > 0 && head.find("Expect: 100-continue") != std::string::npos &&
        !send_all(socket, "HTTP/1.1 100 Continue\r\n\r\n")) {
      return;
    }
    for (size_t taken = head.size() - end - 4; taken < body;) {
      const ssize_t got = recv(socket, buffer.data(), std::min(buffer.size(), body - taken), 0);
      if (got <= 0) return;
      taken += static_cast<size_t>(got);
    }
    std::this_thread::sleep_for(delay);  // the distance
    if (head.starts_with("GET")) {
      size_t first = 0, last = content.size() - 1;
      std::string status = "200 OK\r\n";
      if (const size_t range = head.find("range: bytes="); range != std::string::npos) {
        first = number_behind(head, "range: bytes=", 0);
        last = std::min(last, number_behind(head.substr(range), "-", last));
        status = fmt::format("206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n", first,
                             last, content.size());
      }
      if (!send_all(socket, fmt::format("HTTP/1.1 {}ETag: \"1-1\"\r\nContent-Length: {}\r\n\r\n",
                                        status, last - first + 1)) ||
          !send_all(socket, std::string_view(content).substr(first, last - first + 1))) {
        return;
      }
    } else {
      const std::string_view said =
          head.find("?uploads=") < end
              ? "<InitiateMultipartUploadResult><UploadId>1</UploadId>"
                "</InitiateMultipartUploadResult>"
              : "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>";
      if (!send_all(socket,
                    fmt::format("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: {}\r\n\r\n{}",
                                said.size(), said))) {
        return;
      }
    }
    head.erase(0, end + 4 + std::min(body, head.size() - end - 4));
  }
}

// Serves on a socket that listens, until it is killed.
[[noreturn]] void serve(int listening, const std::string& content,
                        std::chrono::milliseconds delay) {
  while (true) {
    const int socket = accept(listening, nullptr, nullptr);
    if (socket < 0) continue;
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    std::thread([socket, &content, delay] {
      answer(socket, content, delay);
      close(socket);
    }).detach();
  }
}

// The server in a process of its own.
class Server {
 public:
  Server(const std::string& content, std::chrono::milliseconds delay) {
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listening, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listening, 64) != 0 ||
        getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw from_errno(errno, "cannot listen on the loopback interface");
    }
    port_ = ntohs(address.sin_port);
    pid_ = fork();
    if (pid_ == 0) serve(listening, content, delay);
    close(listening);
  }
  ~Server() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  int port_ = 0;
  pid_t pid_ = -1;
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
