#include "muster/serve/internal/http_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/serve/encode_response.h"
#include "muster/serve/internal/request_parser.h"

namespace muster::inline v0_1::serve::internal {
namespace {

using State = RequestParser::State;

// What is read at once.
constexpr size_t kPiece = 16 << 10;
// So much of what still comes after the last answer is read and dropped, and for so long: a client
// that is writing would not see the answer if the connection were cut.
constexpr size_t kDroppedBytes = 16 << 20;
constexpr Duration kDropTime = std::chrono::seconds(2);

// Waits until the socket can be read or written; false when that did not happen in time.
bool wait_for(int socket, short events, TimePoint deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - system_clock().now()).count();
    pollfd entry{socket, events, 0};
    const int ready =
        poll(&entry, 1, static_cast<int>(std::clamp<decltype(left)>(left, 0, 1'000'000)));
    if (ready > 0) return true;
    if (ready == 0 && left <= 0) return false;
    if (ready < 0 && errno != EINTR) return true;  // the next call says what is wrong
  }
}

class Connection {
 public:
  Connection(int socket, const ConnectionContext& context)
      : socket_(socket),
        context_(context),
        parser_({.body_bytes = context.options.max_body_bytes}),
        piece_(kPiece) {}

  void serve() {
    while (read_request()) {
      const RequestHead& head = parser_.head();
      HttpRequest request{.method = head.method,
                          .path = head.path,
                          .body = std::move(parser_.body()),
                          .deadline = begin_ + context_.options.request_time,
                          .query = head.query,
                          .host = head.host,
                          .cookie = head.cookie};
      const HttpAnswer answer = context_.handler(request);
      std::string_view verb = "other";
      for (const std::string_view name : {"predict", "classify", "regress"}) {
        if (request.path.ends_with(":" + std::string(name))) verb = name;
      }
      const bool close = parser_.head().closes || context_.stopping.load();
      count(verb, answer.status);
      if (!send(answer, close) || close) break;
      parser_.next();
    }
    if (last_is_sent_) part();
  }

 private:
  // Reads until a request is there; false when there is none to answer any more.
  bool read_request() {
    begin_ = system_clock().now();
    bool begun = parser_.has_begun() || parser_.state() == State::kWhole;
    bool continued = false;
    while (parser_.state() == State::kHead || parser_.state() == State::kBody) {
      if (parser_.state() == State::kBody && parser_.head().expects_continue && !continued) {
        continued = true;
        if (!send_bytes("HTTP/1.1 100 Continue\r\n\r\n")) return false;
      }
      const Duration time = begun ? context_.options.request_time : context_.options.idle_time;
      if (!wait_for(socket_, POLLIN, begin_ + time)) {
        return begun && refuse({408, "the request did not come within the time of a request"});
      }
      const ssize_t count = recv(socket_, piece_.data(), piece_.size(), 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count <= 0) {
        return count == 0 && parser_.state() == State::kBody &&
               refuse({400, "the body ends early"});
      }
      const TimePoint came = system_clock().now();
      parser_.feed({piece_.data(), static_cast<size_t>(count)});
      if (begun || (parser_.state() == State::kHead && !parser_.has_begun())) continue;
      begin_ = came;
      begun = true;
    }
    if (parser_.state() == State::kRefused) return refuse(parser_.refusal());
    return true;
  }

  // Answers that the request is none; false, because nothing can follow.
  bool refuse(const Refusal& why) {
    count("other", why.status);
    send(error_answer(why.status, why.message), true);
    return false;
  }

  void count(std::string_view verb, int status) {
    context_.metrics.observe_request(verb, status, to_seconds(system_clock().now() - begin_));
  }

  bool send(const HttpAnswer& answer, bool close) {
    if (!send_bytes(bytes_of_answer(answer, close, parser_.head().method != "HEAD"))) return false;
    last_is_sent_ = close;
    return true;
  }

  // False when the client has not taken them within the time of a request.
  bool send_bytes(std::string_view bytes) {
    const TimePoint deadline = system_clock().now() + context_.options.request_time;
    while (!bytes.empty()) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count > 0) {
        bytes.remove_prefix(static_cast<size_t>(count));
      } else if (errno == EAGAIN) {
        if (!wait_for(socket_, POLLOUT, deadline)) return false;
      } else if (errno != EINTR) {
        return false;
      }
      if (system_clock().now() > deadline) return bytes.empty();
    }
    return true;
  }

  // Says that nothing follows, and waits a little until the client has heard it.
  void part() {
    if (shutdown(socket_, SHUT_WR) != 0) return;
    const TimePoint deadline = system_clock().now() + kDropTime;
    for (size_t dropped = 0; dropped < kDroppedBytes;) {
      if (!wait_for(socket_, POLLIN, deadline)) return;
      const ssize_t count = recv(socket_, piece_.data(), piece_.size(), 0);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return;
      if (count > 0) dropped += static_cast<size_t>(count);
    }
  }

  const int socket_;
  const ConnectionContext& context_;
  RequestParser parser_;
  std::vector<char> piece_;
  TimePoint begin_;  // of the request: its first byte
  bool last_is_sent_ = false;
};

}  // namespace

HttpAnswer error_answer(int status, std::string_view message) {
  HttpAnswer answer{status, encode_error(message), kJson, {}};
  if (status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

std::string bytes_of_answer(const HttpAnswer& answer, bool close, bool with_body) {
  namespace http = boost::beast::http;
  const auto reason =
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(answer.status)));
  std::string bytes =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", answer.status,
                  std::string(reason.data(), reason.size()), answer.type, answer.body.size());
  for (const auto& [name, value] : answer.headers) bytes += name + ": " + value + "\r\n";
  if (close) bytes += "Connection: close\r\n";
  bytes += "\r\n";
  if (with_body) bytes += answer.body;
  return bytes;
}

void serve_connection(const FileDescriptor& socket, const ConnectionContext& context) {
  context.metrics.connections.fetch_add(1);
  try {
    Connection(socket.get(), context).serve();
  } catch (const std::exception& error) {
    // Memory that is used up ends this connection, not the server.
    log::error(fmt::format("a connection is closed: {}", error.what()));
  }
  context.metrics.connections.fetch_sub(1);
}

}  // namespace muster::inline v0_1::serve::internal
