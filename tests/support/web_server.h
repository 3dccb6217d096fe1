// A web server on the loopback interface for tests: it answers by a handler, keeps its requests,
// and fails on purpose. Thread safety: every call from any thread; the handler is called under a
// lock.
#pragma once

#include <httplib.h>

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace muster::inline v0_1 {

// The fault of one request.
struct WebFault {
  std::string only{};          // only requests whose "METHOD target" contains this text
  int status = 0;              // answers with this, without the handler; 0: the handler answers
  std::string body{};          // in addition to `status`
  httplib::Headers headers{};  // in addition to `status`
  std::function<void(httplib::Response&)> lie = nullptr;  // changes the answer before it is sent
  int64_t cut_after = -1;              // closes the connection after this many bytes of the body
  std::chrono::milliseconds delay{0};  // before the answer
};

class WebServer {
 public:
  // The handler sets status and body; ranges are cut out of a body of status 200 here, unless
  // `ranges` says that this server knows none.
  using Handler = std::function<void(const httplib::Request&, httplib::Response&)>;
  explicit WebServer(Handler handler, bool ranges = true);
  ~WebServer();
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

  // "http://127.0.0.1:PORT".
  std::string url() const;
  // "127.0.0.1:PORT".
  std::string host() const;
  // Adds a fault for the next request it fits, `times` times.
  void fail(const WebFault& fault, int times = 1);
  // "METHOD target" of each request so far whose text holds `part`.
  std::vector<std::string> requests(const std::string& part = "") const;
  // The header of the last request whose "METHOD target" holds `part`; "" when there is none.
  std::string last_header(const std::string& part, const std::string& header) const;
  void forget_requests();
  // The most requests that were being answered at one time.
  int most_at_once() const;

 private:
  struct Seen {
    std::string line;
    httplib::Headers headers{};
  };
  void answer(const httplib::Request& request, httplib::Response& response);
  void apply_range(const httplib::Request& request, httplib::Response& response) const;

  const Handler handler_;
  const bool ranges_;
  mutable std::mutex mutex_;
  std::deque<WebFault> faults_;
  std::vector<Seen> seen_;
  int now_ = 0;
  int most_ = 0;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace muster::inline v0_1
