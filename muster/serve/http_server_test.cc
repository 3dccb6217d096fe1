// The server over the loopback interface.
#include "muster/serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <filesystem>
#include <future>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/gzip.h"
#include "muster/serve/internal/test_model.h"
#include "muster/serve/rest_api.h"
#include "tests/support/raw_connection.h"

namespace muster::inline v0_1::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using namespace std::chrono_literals;

constexpr const char* kPredict = "/v1/models/m:predict";
constexpr const char* kRow = R"({"instances": [[1, 2]]})";

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    std::filesystem::create_directory(folder_ / "2");
    versions_.poll();
  }

  void start(HttpServerOptions options = {}) {
    options.port = 0;
    server_ = std::make_unique<HttpServer>(
        [this](const HttpRequest& request) { return api_.answer(request); }, options, metrics_);
  }

  httplib::Client client() {
    httplib::Client made("127.0.0.1", server_->port());
    made.set_keep_alive(true);
    made.set_read_timeout(60);
    return made;
  }

  // Sends `bytes` as they are, and returns all that comes until the server closes.
  std::string raw(const std::string& bytes) {
    RawConnection connection(server_->port());
    connection.send_all(bytes);
    return connection.rest();
  }

  TempDirectory folder_;
  ServingMetrics metrics_;
  std::shared_future<void> go_;  // of models that are loaded from now on
  // The factor of a version's model is the version.
  ModelVersions versions_{folder_.path(),
                          [this](const std::string& folder) {
                            const std::string number = std::filesystem::path(folder).filename();
                            auto model = std::make_shared<internal::TestModel>(std::stof(number));
                            model->go = go_;
                            return model;
                          },
                          1, BatcherOptions(), metrics_};
  RestApi api_{"m", versions_, metrics_};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  start({.idle_time = 60s});
  auto asking = client();
  for (int turn = 0; turn < 20; ++turn) {
    const auto answer = asking.Post(kPredict, kRow, "application/json");
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "{\"predictions\": [[2.0, 4.0]]}\n");
    EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json; charset=utf-8");
    EXPECT_FALSE(answer->has_header("Content-Encoding"));
  }
  EXPECT_EQ(metrics_.connections.load(), 1);
  EXPECT_THAT(asking.Get("/metrics")->body,
              HasSubstr("muster_serve_requests_total{verb=\"predict\",code=\"200\"} 20\n"));
  EXPECT_EQ(asking.Get(kPredict)->status, 405);
  EXPECT_EQ(asking.Put(kPredict, kRow, "application/json")->status, 405);
  EXPECT_EQ(asking.Get("/a%0Ab")->status, 404);
}

TEST_F(HttpServerTest, ANewVersionIsTakenUpWithoutAFailedRequest) {
  start();
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0}, old_answers{0}, new_answers{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      auto asking = client();
      while (!done.load()) {
        const auto answer = asking.Post(kPredict, kRow, "application/json");
        const std::string body = answer ? answer->body : "";
        if (body == "{\"predictions\": [[2.0, 4.0]]}\n") {
          old_answers.fetch_add(1);
        } else if (body == "{\"predictions\": [[3.0, 6.0]]}\n") {
          new_answers.fetch_add(1);
        } else {
          wrong.fetch_add(1);
        }
      }
    });
  }
  await([&] { return old_answers.load() >= 50; });
  std::filesystem::create_directory(folder_ / "3");
  versions_.poll();
  const int asked = new_answers.load();
  await([&] { return new_answers.load() >= asked + 50 || wrong.load() != 0; });
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(client().Post(kPredict, kRow, "application/json")->body,
            "{\"predictions\": [[3.0, 6.0]]}\n");
}

TEST_F(HttpServerTest, StopLetsOpenRequestsEnd) {
  std::promise<void> go;
  go_ = go.get_future().share();
  std::filesystem::create_directory(folder_ / "4");
  versions_.poll();
  start();
  std::string body;
  std::thread asking([&] {
    const auto answer = client().Post(kPredict, kRow, "application/json");
    if (answer) body = answer->body;
  });
  await([&] { return metrics_.waiting.load() != 0; });
  EXPECT_FALSE(server_->stop(1ms)) << "a request is open";
  go.set_value();
  EXPECT_TRUE(server_->stop(60s));
  asking.join();
  EXPECT_EQ(body, "{\"predictions\": [[4.0, 8.0]]}\n");
  EXPECT_FALSE(client().Get("/healthz")) << "it does not listen any more";
}

TEST_F(HttpServerTest, BodiesHaveALimit) {
  start({.max_body_bytes = 1000});
  auto asking = client();
  const auto large = asking.Post(kPredict, std::string(5000, ' '), "application/json");
  ASSERT_TRUE(large);
  EXPECT_EQ(large->status, 413);
  EXPECT_EQ(large->body, "{\"error\": \"the body has more than 1000 bytes\"}\n");
  EXPECT_EQ(large->get_header_value("Connection"), "close");
  // The client makes a new connection.
  EXPECT_EQ(asking.Post(kPredict, kRow, "application/json")->status, 200);
  // In pieces of unknown number, and packed.
  EXPECT_THAT(raw("POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                  "\r\n1000\r\n" +
                  std::string(0x1000, ' ') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  const std::string packed = formats::gzip(bytes_of(std::string(5000, ' ')));
  EXPECT_EQ(
      asking.Post(kPredict, {{"Content-Encoding", "gzip"}}, packed, "application/json")->status,
      413);
  // A client that asks first gets its answer before it sends the body.
  EXPECT_THAT(raw("POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000000\r\n"
                  "Expect: 100-continue\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("more than 1000 bytes")));
}

TEST_F(HttpServerTest, BodiesMayBePacked) {
  start();
  const auto ask = [&](const std::string& body) {
    return client().Post(kPredict, {{"Content-Encoding", "gzip"}}, body, "application/json");
  };
  const std::string packed = formats::gzip(bytes_of(std::string_view(kRow)));
  EXPECT_EQ(ask(packed)->body, "{\"predictions\": [[2.0, 4.0]]}\n");
  for (const std::string& broken :
       {packed.substr(0, packed.size() / 2), packed.substr(0, packed.size() - 1), std::string(kRow),
        packed + "x"}) {
    const auto answer = ask(broken);
    EXPECT_EQ(answer->status, 400);
    EXPECT_THAT(answer->body, HasSubstr("the body is not packed as its head says"));
  }
}

TEST_F(HttpServerTest, AClientThatAsksFirstIsToldToContinue) {
  start();
  RawConnection connection(server_->port());
  connection.send_all(
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
      "Content-Length: 23\r\n\r\n");
  EXPECT_EQ(connection.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.send_all(kRow);
  EXPECT_THAT(connection.until("]]}"), StartsWith("HTTP/1.1 200 OK\r\n"));
}

// A request after another that is answered is a request of the client's own.
TEST_F(HttpServerTest, RequestsMayComeBeforeTheirAnswers) {
  start();
  const std::string one =
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 23\r\n\r\n" +
      std::string(kRow);
  const std::string answers = raw(one + "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" + one +
                                  "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(count_answers(answers), 4) << answers;
  EXPECT_THAT(answers, AllOf(HasSubstr("[[2.0, 4.0]]"), HasSubstr("ok\n"), HasSubstr("ready\n")));
}

TEST_F(HttpServerTest, AHeadHasTheHeadersOfItsAnswer) {
  start();
  EXPECT_EQ(raw("HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
            "Connection: close\r\n\r\n");
  // HTTP/1.0 knows the end of an answer by the end of the connection.
  EXPECT_THAT(raw("GET /healthz HTTP/1.0\r\n\r\n"), ::testing::EndsWith("\r\n\r\nok\n"));
}

TEST_F(HttpServerTest, SlowAndBrokenClientsAreToldAndClosed) {
  start({.request_time = 300ms, .idle_time = 300ms});
  const auto told = [&](const std::string& bytes, bool ends) {
    RawConnection connection(server_->port());
    connection.send_all(bytes);
    if (ends) connection.end();
    return connection.rest();
  };
  const std::string head =
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n";
  // Neither the rest of the body nor of the head ever comes.
  EXPECT_THAT(told(head + "\r\n{", false), StartsWith("HTTP/1.1 408 "));
  EXPECT_THAT(told(head, false), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(told("", false), "");
  EXPECT_EQ(told("\r\n", false), "");
  // The client says that it does not come.
  start({.request_time = 3600s, .idle_time = 3600s});
  EXPECT_THAT(told(head + "\r\n{", true),
              AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("the body ends early")));
  EXPECT_EQ(told(head, true), "");
  EXPECT_EQ(client().Get("/healthz")->status, 200);
}

TEST_F(HttpServerTest, ARangeIsIgnored) {
  start();
  const auto answer = client().Get("/healthz", {httplib::make_range_header({{1, 1}})});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "ok\n");
}

TEST_F(HttpServerTest, MoreConnectionsThanAllowedAreRefused) {
  start({.max_connections = 2, .idle_time = 60s});
  auto first = client(), second = client(), third = client();
  EXPECT_EQ(first.Get("/healthz")->status, 200);
  EXPECT_EQ(second.Get("/healthz")->status, 200);
  const auto refused = third.Get("/healthz");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
  EXPECT_THAT(refused->body, HasSubstr("too many connections"));
  EXPECT_THAT(metrics_.text(),
              HasSubstr("muster_serve_requests_total{verb=\"other\",code=\"503\"} 1\n"));
}

TEST_F(HttpServerTest, NoConnectionWaitsForAnother) {
  start({.idle_time = 3600s});
  std::vector<RawConnection> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(server_->port());
  EXPECT_EQ(client().Get("/healthz")->status, 200);
  silent.clear();  // nothing else ends the test's server
}

TEST_F(HttpServerTest, IdleConnectionsAreClosedAndMakeRoom) {
  start({.max_connections = 2, .idle_time = 1s});
  auto first = client(), second = client();
  EXPECT_EQ(first.Get("/healthz")->status, 200);
  EXPECT_EQ(second.Get("/healthz")->status, 200);
  int status = 503;
  for (int turn = 0; turn < 100 && status == 503; ++turn) {
    std::this_thread::sleep_for(100ms);
    const auto answer = client().Get("/healthz");
    if (answer) status = answer->status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(HttpServerTest, APortThatIsTakenIsReported) {
  start();
  HttpServerOptions same;
  same.port = server_->port();
  const auto second = [&](HttpServerOptions options) {
    return error_of([&] {
      const HttpServer other([](const HttpRequest&) { return HttpAnswer(); }, options, metrics_);
    });
  };
  EXPECT_EQ(second(same).kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(second(same).message(), StartsWith("cannot listen at 127.0.0.1:"));
  EXPECT_EQ(second({.host = "192.0.2.1", .port = 0}).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(second({.host = "2001:db8::1", .port = 80}).message(),
            "cannot listen at [2001:db8::1]:80");
}

}  // namespace
}  // namespace muster::inline v0_1::serve
