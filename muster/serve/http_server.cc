#include "muster/serve/http_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/serve/encode_response.h"
#include "muster/serve/internal/connection_threads.h"

namespace muster::inline v0_1::serve {
namespace {

// A path that is longer names nothing here. (The library compares paths by a regular expression,
// which needs stack for each character.)
constexpr size_t kLongestPath = 1024;
// So much of a body that is too large is read and dropped: a client that is still writing would not
// see an answer before.
constexpr size_t kDropped = 16 << 20;

HttpAnswer error_answer(int status, std::string_view message) {
  HttpAnswer answer{status, encode_error(message), kJson, {}};
  if (status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

// Hands the answer to the library. With `close` the connection ends behind it, as it must where the
// rest of a body was not read: the library closes when a provider of bytes says false, as this one
// does once all is written. Other answers are plain: while it stops, the library asks no provider.
void send(httplib::Response& response, HttpAnswer answer, bool close) {
  response.status = answer.status;
  for (const auto& [name, value] : answer.headers) response.set_header(name.c_str(), value);
  if (!close) {
    response.set_content(std::move(answer.body), answer.type.c_str());
    return;
  }
  response.set_header("Connection", "close");
  response.set_content_provider(
      answer.body.size(), answer.type.c_str(),
      [body = answer.body](size_t offset, size_t length, httplib::DataSink& sink) {
        sink.write(body.data() + offset, length);
        return false;
      });
}

// What is wrong with how the head says where the body ends; nothing for most. Programs on the way
// here may read such a head in another way, and take a part of the body for the next request.
std::optional<HttpAnswer> refused_framing(const httplib::Request& request) {
  const size_t lengths = request.get_header_value_count("Content-Length");
  const size_t encodings = request.get_header_value_count("Transfer-Encoding");
  const bool takes_body =
      request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (lengths + encodings == 0) {
    if (!takes_body) return std::nullopt;
    return error_answer(411, "the head says nothing of the body's size; give a Content-Length");
  }
  if (lengths + encodings > 1) {
    return error_answer(400, "the head gives more than one Content-Length or Transfer-Encoding");
  }
  if (encodings == 1) {
    if (to_lower(request.get_header_value("Transfer-Encoding")) != "chunked") {
      return error_answer(501, "the Transfer-Encoding is not 'chunked', the only one known here");
    }
  } else {
    const std::string text = request.get_header_value("Content-Length");
    const bool digits = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || !parse_int(text)) {
      return error_answer(400, fmt::format("the Content-Length is '{}', a number was expected",
                                           printable_beginning(text, 30)));
    }
    if (*parse_int(text) == 0) return std::nullopt;
  }
  if (takes_body || request.method == "DELETE") return std::nullopt;
  return error_answer(400, fmt::format("a {} request has no body here", request.method));
}

// How reading a body ended.
enum class BodyState { kWhole, kBroken, kLate, kTooLarge, kTooLargeAndMore };

BodyState read_body(const httplib::ContentReader& reader, size_t limit, TimePoint deadline,
                    std::string& body) {
  bool late = false;
  size_t size = 0;
  const bool whole = reader([&](const char* data, size_t count) {
    late = system_clock().now() > deadline;
    size += count;
    if (size <= limit) body.append(data, count);
    return !late && size <= limit + kDropped;
  });
  if (late) return BodyState::kLate;
  if (size > limit) return whole ? BodyState::kTooLarge : BodyState::kTooLargeAndMore;
  return whole ? BodyState::kWhole : BodyState::kBroken;
}

// The library keeps the listening socket to itself, and a queue of 5 connections in front of it.
class Library : public httplib::Server {
 public:
  bool widen_backlog() { return ::listen(svr_sock_, SOMAXCONN) == 0; }
};

}  // namespace

struct HttpServer::Impl {
  Impl(HttpHandler answer, const HttpServerOptions& given, ServingMetrics& counters)
      : handler(std::move(answer)), options(given), metrics(counters) {}

  void set_limits();
  void set_routes();
  void listen();
  std::string too_large() const {
    return fmt::format("the body has more than {} bytes", options.max_body_bytes);
  }
  void handle(const httplib::Request& request, httplib::Response& response,
              const httplib::ContentReader* reader);
  HttpAnswer with_body(const httplib::Request& request, const httplib::ContentReader& reader,
                       HttpRequest& asked, bool& close);

  const HttpHandler handler;
  const HttpServerOptions options;
  ServingMetrics& metrics;
  Library library;
  int port = 0;
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::thread thread;
};

void HttpServer::Impl::set_limits() {
  library.new_task_queue = [this] {
    return new internal::ConnectionThreads(options.max_connections, metrics.connections);
  };
  // The library lets two servers share a port, where one would not notice the other.
  library.set_socket_options([](auto socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  library.set_tcp_nodelay(true);
  library.set_keep_alive_max_count(1'000'000'000);
  const auto seconds = [](Duration time) {
    return std::max<time_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
  };
  library.set_keep_alive_timeout(seconds(options.idle_time));
  // Of one read or write; with_body() bounds all of them.
  library.set_read_timeout(std::min<time_t>(5, seconds(options.request_time)));
  library.set_write_timeout(std::min<time_t>(5, seconds(options.request_time)));
}

void HttpServer::Impl::set_routes() {
  using httplib::ContentReader;
  using httplib::Request;
  using httplib::Response;
  library.set_expect_100_continue_handler([this](const Request& request, Response& response) {
    const auto length = parse_int(request.get_header_value("Content-Length"));
    if (!length || static_cast<uint64_t>(*length) <= options.max_body_bytes) return 100;
    metrics.observe_request("other", 413, 0);
    send(response, error_answer(413, too_large()), true);
    return 413;
  });
  library.set_pre_routing_handler([this](const Request& request, Response& response) {
    using Answer = httplib::Server::HandlerResponse;
    const auto refuse = [&](HttpAnswer answer) {
      metrics.observe_request("other", answer.status, 0);
      send(response, std::move(answer), true);
      return Answer::Handled;
    };
    if (internal::ConnectionThreads::refuses()) {
      return refuse(error_answer(503, "too many connections are open; ask again later"));
    }
    if (request.path.size() > kLongestPath)
      return refuse(error_answer(414, "the path is too long"));
    if (auto refusal = refused_framing(request)) return refuse(*std::move(refusal));
    // An answer is given whole; the library would cut it.
    const_cast<Request&>(request).ranges.clear();
    if (stopping.load()) response.set_header("Connection", "close");
    return Answer::Unhandled;
  });
  const auto plain = [this](const Request& request, Response& response) {
    handle(request, response, nullptr);
  };
  const auto reading = [this](const Request& request, Response& response,
                              const ContentReader& reader) { handle(request, response, &reader); };
  const std::string any = "[\\s\\S]*";
  library.Get(any, plain).Options(any, plain);
  library.Post(any, reading).Put(any, reading).Patch(any, reading).Delete(any, reading);
  // What the library refuses by itself, such as a head that is no HTTP.
  const httplib::Server::HandlerWithResponse refused = [](const Request&, Response& response) {
    if (!response.has_header("Content-Type")) {
      const char* text = response.status == 400
                             ? "the request's head is no HTTP/1.1, or its method is unknown"
                             : "the request is refused with HTTP status ";
      response.set_content(
          encode_error(response.status == 400 ? text : text + std::to_string(response.status)),
          kJson);
    }
    return httplib::Server::HandlerResponse::Handled;
  };
  library.set_error_handler(refused);
}

void HttpServer::Impl::handle(const httplib::Request& request, httplib::Response& response,
                              const httplib::ContentReader* reader) {
  const TimePoint begin = system_clock().now();
  HttpRequest asked{request.method, request.path, "", begin + options.request_time};
  bool close = false;
  HttpAnswer answer =
      reader == nullptr ? handler(asked) : with_body(request, *reader, asked, close);
  std::string_view verb = "other";
  for (const std::string_view name : {"predict", "classify", "regress"}) {
    if (asked.path.ends_with(":" + std::string(name))) verb = name;
  }
  metrics.observe_request(verb, answer.status, to_seconds(system_clock().now() - begin));
  send(response, std::move(answer), close && !stopping.load());
}

HttpAnswer HttpServer::Impl::with_body(const httplib::Request& request,
                                       const httplib::ContentReader& reader, HttpRequest& asked,
                                       bool& close) {
  close = true;
  if (request.is_multipart_form_data()) {
    return error_answer(415, "the body is a form of several parts; JSON was expected");
  }
  switch (read_body(reader, options.max_body_bytes, asked.deadline, asked.body)) {
    case BodyState::kBroken:
      return error_answer(400, "the body ends early, or is not packed as its head says");
    case BodyState::kLate:
      return error_answer(408, "the body did not come within the time of a request");
    case BodyState::kTooLargeAndMore:
      return error_answer(413, too_large());
    case BodyState::kTooLarge:
      close = false;
      return error_answer(413, too_large());
    case BodyState::kWhole:
      break;
  }
  close = false;
  return handler(asked);
}

void HttpServer::Impl::listen() {
  errno = 0;
  port = options.port == 0 ? library.bind_to_any_port(options.host)
                           : (library.bind_to_port(options.host, options.port) ? options.port : -1);
  if (port < 0) {
    const std::string where = fmt::format("{}:{}", options.host, options.port);
    if (errno == EADDRINUSE) {
      throw from_errno(errno, "cannot listen at " + where, "take another --port");
    }
    throw invalid_argument("cannot listen at " + where,
                           "name an address of this machine, and a port you may take");
  }
  library.widen_backlog();
  thread = std::thread([this] {
    library.listen_after_bind();
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
  });
  // The library does not see a stop() that comes before it runs.
  std::unique_lock lock(mutex);
  while (!library.is_running() && !ended) changed.wait_for(lock, std::chrono::milliseconds(1));
}

HttpServer::HttpServer(HttpHandler handler, const HttpServerOptions& options,
                       ServingMetrics& metrics)
    : impl_(std::make_unique<Impl>(std::move(handler), options, metrics)) {
  impl_->set_limits();
  impl_->set_routes();
  impl_->listen();
}

HttpServer::~HttpServer() {
  stop(Duration(0));
  impl_->thread.join();
}

int HttpServer::port() const { return impl_->port; }

bool HttpServer::stop(Duration time) {
  if (!impl_->stopping.exchange(true)) impl_->library.stop();
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, time, [this] { return impl_->ended; });
}

}  // namespace muster::inline v0_1::serve
