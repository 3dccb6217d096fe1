// Answers that are not good HTTP: an error, and never another file than the one that is there.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>

#include "muster/base/file_descriptor.h"
#include "muster/stores/http_store.h"
#include "muster/stores/internal/for_tests.h"

namespace muster::inline v0_1::stores {
namespace {

using ::testing::HasSubstr;

// Gives every client the same answer, whatever was asked, and hangs up.
class Parrot {
 public:
  explicit Parrot(std::string answer) : answer_(std::move(answer)) {
    listening_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(::listen(listening_.get(), 16), 0);
    ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&name), &size);
    port_ = ntohs(name.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Parrot() {
    ending_ = true;
    ::shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int asked() const { return asked_; }

 private:
  void serve() {
    while (!ending_) {
      const FileDescriptor client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.is_open()) continue;
      ++asked_;
      char buffer[8192];
      (void)!::recv(client.get(), buffer, sizeof buffer, 0);
      size_t sent = 0;
      while (sent < answer_.size()) {
        const ssize_t count =
            ::send(client.get(), answer_.data() + sent, answer_.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<size_t>(count);
      }
      ::shutdown(client.get(), SHUT_WR);
    }
  }

  const std::string answer_;
  FileDescriptor listening_;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<int> asked_{0};
  std::thread thread_;
};

std::string with_headers(const std::string& status, const std::string& headers,
                         const std::string& body = "") {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers + "\r\n" + body;
}

// What reading by each store says of such an answer; both must say something.
void expect_refused(const std::string& answer, const std::string& word) {
  const Parrot server(answer);
  HttpOptions options = HttpOptions::from({});
  options.limits = internal::quick_limits();
  const auto web = make_http_store(options)->read_file(server.url() + "/f");
  ASSERT_FALSE(web.ok()) << answer.substr(0, 200) << " was read as '" << web.value() << "'";
  EXPECT_THAT(web.error().what(), HasSubstr(word)) << answer.substr(0, 200);
  const auto s3 = internal::quick_s3_store(
                      {{"AWS_ENDPOINT_URL", server.url()}, {"AWS_EC2_METADATA_DISABLED", "true"}})
                      ->read_file("s3://bucket/f");
  ASSERT_FALSE(s3.ok()) << answer.substr(0, 200) << " was read as '" << s3.value() << "'";
  EXPECT_THAT(s3.error().what(), HasSubstr(word)) << answer.substr(0, 200);
  EXPECT_LE(server.asked(), 4) << "trying again brings the same";
}

TEST(HttpLies, LengthsThatAreNoNumbers) {
  for (const char* length : {"18446744073709551616", "18446744073709551615", "9223372036854775808",
                             "-1", "x", "0x10", "1e3", "99999999999999999999999999999999", ""}) {
    expect_refused(
        with_headers("200 OK", std::string("Content-Length: ") + length + "\r\n", "bytes"),
        "(Content-Length)");
  }
  expect_refused(with_headers("200 OK", "Content-Length: 5\r\nContent-Length: 4\r\n", "bytes"),
                 "(Content-Length)");
}

TEST(HttpLies, RangesThatAreNone) {
  for (const char* range :
       {"bytes 0-4/18446744073709551616", "bytes 0-4/*", "bytes 0-4/-5", "bytes 0-4", "bytes 1-5/9",
        "bytes 0-18446744073709551615/5", "bytes 4-0/5", "lines 0-4/5", ""}) {
    expect_refused(
        with_headers("206 Partial Content",
                     std::string("Content-Length: 5\r\nContent-Range: ") + range + "\r\n", "bytes"),
        "but was asked for bytes from 0");
  }
  expect_refused(with_headers("206 Partial Content", "Content-Length: 5\r\n", "bytes"),
                 "but was asked for bytes from 0");
  // A file that has bytes has a first one.
  expect_refused(with_headers("416 Range Not Satisfiable",
                              "Content-Length: 0\r\nContent-Range: bytes */500\r\n"),
                 "but was asked for bytes from 0");
}

// It sends the whole file when it is opened, which has a limit; what is announced to be more is
// refused before it comes.
TEST(HttpLies, AServerWithoutRangesMaySend256MiB) {
  const Parrot server(with_headers(
      "200 OK", "Content-Length: " + std::to_string((size_t{256} << 20) + 1) + "\r\n", "x"));
  HttpOptions options = HttpOptions::from({});
  options.limits = internal::quick_limits();
  const auto read = make_http_store(options)->read_file(server.url() + "/f");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind(), ErrorKind::kInvalidArgument) << read.error().what();
  EXPECT_THAT(read.error().hint(),
              HasSubstr("the server knows no ranges, and the file has more than 256.0 MiB"));
  EXPECT_EQ(server.asked(), 1);
}

// Those that succeeded in something else than giving bytes: an object is not empty for that.
TEST(HttpLies, StatusesThatAreNoAnswerToARead) {
  for (const char* status : {"201 Created", "202 Accepted", "204 No Content"}) {
    expect_refused(with_headers(status, "Content-Length: 0\r\n"),
                   std::string("the server answers ") + std::string(status).substr(0, 3));
  }
}

TEST(HttpLies, HeadersWithoutEnd) {
  std::string headers;
  for (int i = 0; i < 20'000; ++i) headers += "X-Header-" + std::to_string(i) + ": value\r\n";
  // libcurl counts bytes or lines, and says "of headers" or "response headers".
  expect_refused(with_headers("200 OK", headers + "Content-Length: 5\r\n", "bytes"), " headers");
}

// What is read into a tree takes a multiple of its bytes.
TEST(HttpLies, AnAnswerThatIsNoPage) {
  std::string body = "<ListBucketResult>";
  while (body.size() < (9u << 20)) body += "<a/>";
  const Parrot server(with_headers("200 OK", "", body));
  const auto listed = internal::quick_s3_store({{"AWS_ENDPOINT_URL", server.url()},
                                                {"AWS_EC2_METADATA_DISABLED", "true"}})
                          ->list_directory("s3://bucket/d");
  ASSERT_FALSE(listed.ok());
  EXPECT_THAT(listed.error().what(), HasSubstr("more bytes than were asked for"));
  EXPECT_EQ(server.asked(), 1);
}

// A length that is not given is not a size of 0, by which a file that is there would be written
// again.
TEST(HttpLies, ASizeThatIsNotGivenIsNotNothing) {
  const Parrot server(with_headers("200 OK", "ETag: \"1\"\r\n"));
  const auto looked = internal::quick_s3_store({{"AWS_ENDPOINT_URL", server.url()},
                                                {"AWS_EC2_METADATA_DISABLED", "true"}})
                          ->info("s3://bucket/f");
  ASSERT_FALSE(looked.ok());
  EXPECT_THAT(looked.error().message(), HasSubstr("does not say how many bytes"));
}

}  // namespace
}  // namespace muster::inline v0_1::stores
