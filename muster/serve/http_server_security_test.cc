// Attacks of unauthenticated peers on the server, over the loopback interface: requests inside of
// requests, requests that never end, and sizes without end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "muster/base/await.h"
#include "muster/formats/gzip.h"
#include "muster/serve/http_server.h"
#include "tests/support/raw_connection.h"

namespace muster::inline v0_1::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

// The most memory that this process ever had.
size_t most_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

// More than the system keeps for a client that does not read.
constexpr size_t kLargeAnswer = 64 << 20;
constexpr const char* kSmuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

// A server that notes the paths of requests, and proxies in front of it.
class HttpServerSecurityTest : public ::testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.port = 0;
    server_ = std::make_unique<HttpServer>(
        [this](const HttpRequest& request) {
          const std::lock_guard lock(mutex_);
          asked_.push_back(request.path);
          if (request.path == "/large")
            return HttpAnswer{200, std::string(kLargeAnswer, 'x'), "text/plain", {}};
          return HttpAnswer{200, request.body, "text/plain", {}};
        },
        options, metrics_);
  }

  // A proxy keeps one connection for several clients, and takes `bytes` for one request of one of
  // them. Whatever the server thinks of it, it must answer once and close: a second answer would go
  // to the next client.
  std::string through_a_proxy(const std::string& bytes) {
    RawConnection shared(server_->port());
    shared.send_all("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_THAT(shared.until("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
    shared.send_all(bytes);
    return shared.rest();
  }

  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  // So many bytes of a request can be sent, in pieces, before the server closes; at most `most`.
  size_t sent_until_closed(const std::string& head, const std::string& piece, size_t most) {
    RawConnection connection(server_->port());
    size_t sent = 0;
    for (bool open = connection.send_all(head); open && sent < most; sent += piece.size())
      open = connection.send_all(piece);
    return sent;
  }

  ServingMetrics metrics_;
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerSecurityTest, NoRequestIsFoundInsideOfAnother) {
  start();
  const std::string post = "POST /second HTTP/1.1\r\nHost: a\r\n";
  const std::string length = "Content-Length: " + std::to_string(std::string(kSmuggled).size());
  const std::string gzip = "Content-Encoding: gzip\r\n";
  const std::string packed = formats::gzip(bytes_of(std::string_view("{}")));
  const std::string cut = packed.substr(0, packed.size() - 4);
  struct Case {
    std::string bytes;   // the bytes in front of the smuggled request
    std::string status;  // of the answer
  };
  const Case cases[] = {
      // Methods, versions, lines and paths that are none.
      {"BREW /second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "501"},
      {"post /second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "501"},
      {"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", "501"},
      {"TRACE /second HTTP/1.1\r\nHost: a\r\n\r\n", "501"},
      {"POST /second HTTP/1.2\r\nHost: a\r\n" + length + "\r\n\r\n", "505"},
      {"POST /second HTTP/2.0\r\nHost: a\r\n" + length + "\r\n\r\n", "505"},
      {"POST /second HTTP/0.9\r\nHost: a\r\n" + length + "\r\n\r\n", "505"},
      {"POST /second\r\n\r\n", "400"},
      {"POST  /second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {"POST /sec ond HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {"POST /second%2 HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {"POST second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {"\r\n\r\n", "400"},
      {std::string("\x16\x03\x01\x02", 4), "400"},
      {"POST /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "414"},
      {"POST /" + std::string(70000, 'a') + " HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n",
       "414"},
      {post + "X: " + std::string(70000, 'a') + "\r\n" + length + "\r\n\r\n", "431"},
      // A body in a request that must have none.
      {"GET /second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {"GET /second HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
      {"HEAD /second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {"OPTIONS /second HTTP/1.1\r\nHost: a\r\n" + length + "\r\n\r\n", "400"},
      {post + "\r\n", "411"},
      // Two lengths, or one that can be read in two ways.
      {post + length + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n" + length + "\r\n\r\n0\r\n\r\n", "400"},
      {post + length + "\r\nContent-Length: 0\r\n\r\n", "400"},
      {post + length + "\r\n" + length + "\r\n\r\n", "400"},
      {post + length + ", 0\r\n\r\n", "400"},
      {post + "Content-Length: +5\r\n\r\n", "400"},
      {post + "Content-Length: -1\r\n\r\n", "400"},
      {post + "Content-Length: 0x10\r\n\r\n", "400"},
      {post + "Content-Length: 1e1\r\n\r\n", "400"},
      {post + "Content-Length:\r\n\r\n", "400"},
      {post + "Content-Length: 99999999999999999999\r\n\r\n", "400"},
      {post + "Content-Length : 5\r\n\r\n", "400"},
      {post + "Content-Length\r\n : 5\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", "501"},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
      {post + "Transfer-Encoding: identity\r\n\r\n", "501"},
      {post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "501"},
      {post + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", "501"},
      {post + "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400"},
      {post + "X: a\r\n\tTransfer-Encoding: chunked\r\n" + length + "\r\n\r\n", "400"},
      {"POST /second HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
      // Lines that end in another way.
      {"POST /second HTTP/1.1\nHost: a\n" + length + "\n\n", "400"},
      {post + "X: a\n" + length + "\r\n\r\n", "400"},
      {post + "X: a\r" + length + "\r\n\r\n", "400"},
      {post + std::string("X: \0\r\n", 6) + length + "\r\n\r\n", "400"},
      // Fields that may occur once.
      {"POST /second HTTP/1.1\r\n" + length + "\r\n\r\n", "400"},
      {post + "Host: b\r\n" + length + "\r\n\r\n", "400"},
      {post + "Content-Type: a/b\r\nContent-Type: c/d\r\n" + length + "\r\n\r\n", "400"},
      {post + gzip + gzip + length + "\r\n\r\n", "400"},
      // Bodies of another form than the declared one.
      {post + "Content-Type: multipart/form-data; boundary=a\r\n" + length + "\r\n\r\n", "415"},
      {post + "Content-Encoding: br\r\n" + length + "\r\n\r\n", "415"},
      {post + "Expect: 200-ok\r\n" + length + "\r\n\r\n", "417"},
      {post + gzip + "Content-Length: " + std::to_string(cut.size()) + "\r\n\r\n" + cut, "400"},
      // Chunks that are none.
      {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n 5\r\nhello\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n5 \r\nhelloXX0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n5;\nhello\r\n0\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "413"},
      {post + "Transfer-Encoding: chunked\r\n\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n", "400"},
      {post + "Transfer-Encoding: chunked\r\n\r\n0\r\nno field\r\n\r\n", "400"},
  };
  for (const Case& each : cases) {
    const std::string answers = through_a_proxy(each.bytes + kSmuggled);
    EXPECT_THAT(answers, StartsWith("HTTP/1.1 " + each.status + " ")) << each.bytes;
    EXPECT_THAT(answers, HasSubstr("\r\nConnection: close\r\n")) << each.bytes;
    EXPECT_EQ(count_answers(answers), 1) << each.bytes;
  }
  for (const std::string& path : asked()) EXPECT_EQ(path, "/first");
}

TEST_F(HttpServerSecurityTest, RequestsThatTheStandardAllowsAreTaken) {
  start();
  const std::string post = "POST /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
  const std::string five = "5\r\nhello\r\n0\r\n\r\n";
  for (const std::string& bytes :
       {post + "Content-Length: 5\r\n\r\nhello", post + "content-length:5 \t\r\n\r\nhello",
        post + "Transfer-Encoding: chunked\r\n\r\n" + five,
        post + "TRANSFER-ENCODING:\tChunked\r\n\r\n" + five,
        post + "Transfer-Encoding: chunked\r\n\r\n0002;a=b;c=\"d\"\r\nhe\r\n3\r\nllo\r\n0;e\r\n"
               "Trailer: x\r\n\r\n",
        std::string("PUT http://a/second?x=%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                    "Content-Length: 5\r\n\r\nhello")}) {
    const std::string answer = through_a_proxy(bytes);
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200 "), ::testing::EndsWith("\r\n\r\nhello")))
        << bytes;
  }
}

// Old clients send an empty line after a body. An answer to it would be taken for the answer to the
// next request.
TEST_F(HttpServerSecurityTest, AnEmptyLineAfterABodyHasNoAnswer) {
  start();
  const std::string post = "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n";
  const std::string hello = "\r\nhello\r\n";
  const std::string answers =
      through_a_proxy(post + hello + post + "Connection: close\r\n" + hello);
  EXPECT_EQ(count_answers(answers), 2) << answers;
  EXPECT_THAT(answers, ::testing::EndsWith("\r\n\r\nhello"));
}

TEST_F(HttpServerSecurityTest, AnAnswerToHeadHasNoBody) {
  start();
  EXPECT_THAT(through_a_proxy("HEAD /second HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"),
              AllOf(StartsWith("HTTP/1.1 400 "), ::testing::EndsWith("\r\n\r\n")));
}

// All received bytes count, not only the kept ones.
TEST_F(HttpServerSecurityTest, NothingIsReadWithoutAnEnd) {
  start({.max_body_bytes = 1 << 20});
  const std::string post = "POST /second HTTP/1.1\r\nHost: a\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string many(1 << 16, 'x');
  // Bytes that the system holds in the buffers of both ends, and that the server drops after its
  // answer.
  constexpr size_t kInFlight = 48 << 20;
  constexpr size_t kMost = 256 << 20;
  const size_t before = most_memory();
  for (const auto& [head, piece] : {
           std::pair{post, "X: " + many.substr(0, 1000) + "\r\n"},           // fields
           std::pair{post + "X: ", many},                                    // one field
           std::pair{std::string("GET /"), many},                            // a path
           std::pair{std::string(), many},                                   // a method
           std::pair{chunked, "1;x=" + many.substr(0, 1000) + "\r\na\r\n"},  // extensions
           std::pair{chunked + "1;x=", many},                                // one of them
           std::pair{chunked, std::string("1\r\na\r\n1\r\nb\r\n")},          // lines of chunks
           std::pair{chunked + std::string(1 << 16, '0'), std::string(1 << 16, '0')},
           std::pair{chunked + "0\r\n", "X: " + many.substr(0, 1000) + "\r\n"},  // trailers
           std::pair{post + "Content-Length: 1000000000000\r\n\r\n", many},
       }) {
    EXPECT_LT(sent_until_closed(head, piece, kMost), kInFlight) << head;
  }
  EXPECT_LT(most_memory(), before + (64 << 20));
  EXPECT_TRUE(asked().empty());
}

// Each byte comes in time, the request does not.
TEST_F(HttpServerSecurityTest, AByteNowAndThenDoesNotKeepAConnection) {
  start({.request_time = 400ms, .idle_time = 60s});
  const std::string post = "POST /second HTTP/1.1\r\nHost: a\r\n";
  std::vector<std::thread> clients;
  for (const std::string& head :
       {std::string("G"), post + "X: ", post + "Content-Length: 100000\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\n\r\n186a0\r\n",
        post + "Transfer-Encoding: chunked\r\n\r\n1;x=",
        post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: "}) {
    clients.emplace_back([this, head] {
      RawConnection connection(server_->port());
      std::string answer;
      std::thread reading([&] { answer = connection.rest(); });
      // Ends when the server closes; after a minute, should it not.
      bool open = connection.send_all(head);
      for (int i = 0; i < 3000 && open; ++i, open = connection.send_all("a"))
        std::this_thread::sleep_for(20ms);
      if (open) connection.close();
      reading.join();
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 408 ")) << head;
      EXPECT_EQ(count_answers(answer), 1) << head;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(asked().empty());
}

// An answer that the client does not read holds no connection for long either.
TEST_F(HttpServerSecurityTest, AClientThatDoesNotReadIsCut) {
  start({.request_time = 2s});
  RawConnection connection(server_->port());
  connection.send_all("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto is_late = [&] { return metrics_.text().find("code=\"408\"") != std::string::npos; };
  await([&] { return !asked().empty() || is_late(); });
  await([&] { return metrics_.connections.load() == 0; });
  EXPECT_LT(connection.rest().size(), kLargeAnswer);
}

}  // namespace
}  // namespace muster::inline v0_1::serve
