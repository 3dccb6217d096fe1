// HTTP over libcurl: one request at a time on the caller's thread, over connections that are kept
// for the next. Thread safety: an HttpClient may be used from many threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/result.h"
#include "muster/stores/internal/cancellation.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores::internal {

struct HttpRequest {
  std::string method = "GET";
  std::string url{};
  std::vector<std::string> headers{};  // "Name: value"
  Bytes body{};                        // must outlive the request
  // Where the body of an answer of 2xx goes, if this has room for a byte; else it becomes
  // HttpResponse::body.
  MutableBytes into{};
  size_t most_body = size_t{64} << 20;  // of HttpResponse::body, in bytes
  // What it is likely to have at most, by which one attempt is given its time.
  size_t expected_body = size_t{1} << 20;
  bool follow_redirects = false;
  bool without_proxy = false;  // for addresses of this machine's surroundings
  double stall_seconds = 0;    // 0: those of the options
  double attempt_seconds = 0;  // 0: to connect, to stall twice, and 1 s for each 32 KiB
};

// What a service's answer in XML or JSON has at most, in bytes: a page of a thousand of the longest
// names. Read, it takes some times as much memory.
inline constexpr size_t kMostAnswer = size_t{8} << 20;

// What an attempt came to.
inline constexpr std::string_view kServerSends = "the server sends ";  // begins such a problem
enum class Transport {
  kAnswered,   // there is a status
  kNoContact,  // no server was reached: name, connection, TLS
  kBroken,     // it ended in the middle; trying again may work
  kRefused,    // trying again will not help: certificate, URL, an answer too large or no HTTP
  kCancelled,
};

struct HttpResponse {
  Transport transport = Transport::kAnswered;
  std::string problem{};  // what went wrong below HTTP
  bool timed_out = false;
  int status = 0;
  // Names in small letters; values of a header that came twice stand after each other, with
  // commas.
  std::map<std::string, std::string> headers{};
  std::string body{};
  size_t received = 0;  // bytes in HttpRequest::into
  int attempts = 1;     // tries that it took
  double seconds = 0;   // from the first try to the end
  std::string url{};    // after redirects

  bool ok() const { return transport == Transport::kAnswered && status / 100 == 2; }
  // Returns the header, named in small letters, or "".
  std::string header(const std::string& name) const;
};

// Returns the beginning of a URL: scheme, host and port.
std::string origin_of(const std::string& url);

class HttpClient {
 public:
  explicit HttpClient(const StoreOptions& options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Sends the request once. `cancellation`, if given, ends it within about a second.
  HttpResponse perform(const HttpRequest& request, const Cancellation* cancellation = nullptr);

  // Whether it is time for a line that says that requests fail: those of one client that fail
  // at the same time, and tries of one, are one trouble.
  bool may_warn();

  // Whether a server was ever reached there: one that does not answer now is away, and no wrong
  // address.
  bool knows(const std::string& url);

  const StoreOptions& options() const { return options_; }

 private:
  void* take_handle();
  void give_handle(void* handle);
  void remember(const std::string& url);

  const StoreOptions options_;
  std::mutex mutex_;
  std::vector<void*> idle_;      // the one used last at the end, whose connection is warm
  std::set<std::string> known_;  // scheme, host and port of servers that were reached
  std::optional<TimePoint> warned_;
};

// How long one attempt at this request may take, in seconds, however much moves meanwhile.
double attempt_seconds(const HttpRequest& request, const StoreOptions& options);

// Whether the server answered that it is busy or starting: 408, 429, 500, 502, 503 or 504.
bool is_busy(const HttpResponse& response);

// What a service says of an answer that is not a success.
enum class RetryDecision {
  kByStatus,  // 408, 429, 500, 502, 503, 504 and what broke are tried again after a while
  kAgain,     // try again after a while
  kAtOnce,    // something was learned (a region, a clock, a new token): try again now
  kFinal,     // do not try again
};

// A request that may be sent more than once.
struct Retried {
  std::string what{};  // "read 's3://a/b'"
  // Builds each try: its time and its signature may differ.
  std::function<Result<HttpRequest>()> make{};
  // Sees each answer before all else, and may change its status: some services say 200, and in the
  // body that it failed.
  std::function<void(HttpResponse&)> amend = nullptr;
  // Empty: the status decides.
  std::function<RetryDecision(const HttpResponse&)> judge = nullptr;
  // What an answer that is not a success says, in the service's own words. Empty: its status alone.
  std::function<Error(const HttpResponse&)> error_of = nullptr;
  Cancellation* cancellation = nullptr;
};

// Sends a request until it is answered, with waits in between that double, within
// StoreOptions::retry_timeout. A server's Retry-After is waited for. What goes on failing is said
// in the log after a second, and then about every 15. Where a SharedPatience is, the time counts
// from when its requests began to fail. The error is that of `make`; everything else
// is in the response.
Result<HttpResponse> perform_with_retries(HttpClient& client, const Retried& request);

}  // namespace muster::inline v0_1::stores::internal
