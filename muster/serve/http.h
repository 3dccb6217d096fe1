// A request and its answer, as the server's parts pass them on. Thread safety: values.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"

namespace muster::inline v0_1::serve {

// The request of a client.
struct HttpRequest {
  std::string method{};  // "GET", "POST" and so on
  std::string path{};    // percent signs decoded, without a query
  std::string body{};
  TimePoint deadline{};  // when the answer is due, on the machine's clock
  std::string query{};   // what follows the first '?' of the target, as it came
  std::string host{};    // the field Host; empty where HTTP/1.0 left it out
  std::string cookie{};  // the field Cookie; empty without one
};

// The type of JSON. The library compresses the plain type "application/json" as well as it can,
// which takes longer than most models.
inline constexpr const char* kJson = "application/json; charset=utf-8";

// The answer to a client.
struct HttpAnswer {
  int status = 200;
  std::string body{};
  std::string type = kJson;
  std::vector<std::pair<std::string, std::string>> headers{};
};

// Answers one request; called on many threads at once.
using HttpHandler = std::function<HttpAnswer(const HttpRequest&)>;

}  // namespace muster::inline v0_1::serve
