#include "muster/stores/internal/http_client.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// Handles that wait for the next request; each keeps its connections.
constexpr size_t kIdleHandles = 64;
// A transfer slower than this counts as stalled, in bytes per second.
constexpr long kSlow = 1024;
// One attempt may take so long for each byte, in addition to the time to connect and to stall: 32
// KiB/s.
constexpr double kSecondsPerByte = 1.0 / (32 << 10);
// Of all headers of an answer, with those of redirects and trailers, in bytes.
constexpr size_t kMostHeaders = 256 << 10;

struct Exchange {
  CURL* handle{};
  const HttpRequest& request;
  HttpResponse& response;
  const Cancellation* cancellation{};
  size_t sent = 0;
  size_t headers = 0;  // bytes of headers so far
  bool too_large = false;
};

size_t on_header(char* data, size_t, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if ((exchange.headers += size) > kMostHeaders) return 0;
  const std::string_view line = trim(std::string_view(data, size));
  if (line.starts_with("HTTP/")) {
    // The head of another answer begins: after a redirect, or after "100 Continue".
    exchange.response.headers.clear();
    exchange.response.body.clear();
    exchange.response.received = 0;
    return size;
  }
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    std::string& value = exchange.response.headers[to_lower(line.substr(0, colon))];
    if (!value.empty()) value += ", ";
    value += trim(line.substr(colon + 1));
  }
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  long status = 0;
  curl_easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
  HttpResponse& response = exchange.response;
  // What is announced to be too long is not waited for.
  curl_off_t announced = -1;
  curl_easy_getinfo(exchange.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
  const size_t room =
      exchange.request.into.empty() ? exchange.request.most_body : exchange.request.into.size();
  if (status / 100 == 2 && announced > 0 && static_cast<uint64_t>(announced) > room) {
    exchange.too_large = true;
    return 0;
  }
  if (status / 100 == 2 && !exchange.request.into.empty()) {
    if (size > exchange.request.into.size() - response.received) {
      exchange.too_large = true;
      return 0;
    }
    std::memcpy(exchange.request.into.data() + response.received, data, size);
    response.received += size;
    return size;
  }
  if (status / 100 == 2 && size > exchange.request.most_body - response.body.size()) {
    exchange.too_large = true;
    return 0;
  }
  // Of an error's page the beginning says enough.
  constexpr size_t kMostOfAnError = 64 << 10;
  if (status / 100 == 2 || response.body.size() < kMostOfAnError) response.body.append(data, size);
  return size;
}

size_t on_send(char* buffer, size_t, size_t room, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const size_t count = std::min(room, exchange.request.body.size() - exchange.sent);
  if (count > 0) std::memcpy(buffer, exchange.request.body.data() + exchange.sent, count);
  exchange.sent += count;
  return count;
}

int on_rewind(void* user, curl_off_t offset, int origin) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_FAIL;
  exchange.sent = static_cast<size_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const Exchange& exchange = *static_cast<const Exchange*>(user);
  return exchange.cancellation != nullptr && exchange.cancellation->cancelled() ? 1 : 0;
}

Transport transport_of(CURLcode code) {
  switch (code) {
    case CURLE_OK:
      return Transport::kAnswered;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
      return Transport::kNoContact;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_AGAIN:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_SEND_FAIL_REWIND:
      return Transport::kBroken;
    default:
      return Transport::kRefused;
  }
}

// Whether trying again brings the same, which libcurl's codes do not tell: `tunnel` is what a proxy
// answered to the request for one, or 0.
bool stays_so(std::string_view problem, long tunnel) {
  const auto says = [&](const char* words) { return problem.find(words) != std::string::npos; };
  // A proxy that forbids, or wants a password.
  if (tunnel / 100 == 4 && tunnel != 408 && tunnel != 429) return true;
  // A server that does not speak TLS, or refuses ours with an alert.
  return says("wrong version number") ||
         (says(" alert ") && !says("internal error") && !says("bad record mac"));
}

std::string wrong_length() {
  return std::string(kServerSends) + "a length (Content-Length) that is not a number of bytes";
}

// Says what is wrong with the length that an answer announces; "" when nothing is. libcurl goes on
// without a number that it cannot read, and takes what comes for the whole.
std::string fault_of_length(const HttpResponse& response) {
  const auto found = response.headers.find("content-length");
  if (found == response.headers.end()) return "";
  const std::vector<std::string> lengths = split(found->second, ',');
  const bool good = std::ranges::all_of(lengths, [&](const std::string& length) {
    return parse_size(trim(length)) && trim(length) == trim(lengths.front());
  });
  return good ? "" : wrong_length() + ": '" + printable_beginning(found->second) + "'";
}

double stall_of(const HttpRequest& request, const StoreOptions& options) {
  return request.stall_seconds > 0 ? request.stall_seconds : options.stall_timeout.count();
}

long milliseconds(double seconds) { return static_cast<long>(std::max(1.0, seconds * 1000)); }

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

double attempt_seconds(const HttpRequest& request, const StoreOptions& options) {
  if (request.attempt_seconds > 0) return request.attempt_seconds;
  const size_t comes = request.into.empty() ? request.expected_body : request.into.size();
  return options.connect_timeout.count() + 2 * stall_of(request, options) +
         static_cast<double>(request.body.size() + comes) * kSecondsPerByte;
}

HttpClient::HttpClient(const StoreOptions& options) : options_(options) {
  // libcurl counts the calls; what it sets up stays for the process.
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK)
    throw internal_error(std::string("libcurl cannot be set up: ") + curl_easy_strerror(ready));
}

HttpClient::~HttpClient() {
  for (void* handle : idle_) curl_easy_cleanup(handle);
}

void* HttpClient::take_handle() {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      void* handle = idle_.back();
      idle_.pop_back();
      return handle;
    }
  }
  void* handle = curl_easy_init();
  if (handle == nullptr) throw internal_error("libcurl gives no handle for a request");
  return handle;
}

void HttpClient::give_handle(void* handle) {
  {
    std::lock_guard lock(mutex_);
    if (idle_.size() < kIdleHandles) {
      idle_.push_back(handle);
      return;
    }
  }
  curl_easy_cleanup(handle);
}

std::string origin_of(const std::string& url) {
  return url.substr(0, url.find_first_of("/?", url.find("://") + 3));
}

void HttpClient::remember(const std::string& url) {
  std::lock_guard lock(mutex_);
  known_.insert(origin_of(url));
}

bool HttpClient::knows(const std::string& url) {
  std::lock_guard lock(mutex_);
  return known_.contains(origin_of(url));
}

HttpResponse HttpClient::perform(const HttpRequest& request, const Cancellation* cancellation) {
  CURL* handle = take_handle();
  HttpResponse response;
  Exchange exchange{handle, request, response, cancellation};
  char problem[CURL_ERROR_SIZE] = "";
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : request.headers)
    headers = curl_slist_append(headers, header.c_str());

  curl_easy_reset(handle);
  const auto set = [handle](CURLoption option, auto value) {
    curl_easy_setopt(handle, option, value);
  };
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_USERAGENT, "muster/0.1");
  set(CURLOPT_ERRORBUFFER, problem);
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &exchange);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_BUFFERSIZE, 512L << 10);
  set(CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, on_progress);
  set(CURLOPT_XFERINFODATA, &exchange);
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options_.connect_timeout.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, kSlow);
  set(CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(stall_of(request, options_))));
  set(CURLOPT_TIMEOUT_MS, milliseconds(attempt_seconds(request, options_)));
  if (request.without_proxy) set(CURLOPT_NOPROXY, "*");
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  if (request.follow_redirects) {
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_REDIR_PROTOCOLS_STR, request.url.starts_with("https:") ? "https" : "http,https");
  }
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.method == "PUT" || !request.body.empty()) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, on_send);
    set(CURLOPT_READDATA, &exchange);
    set(CURLOPT_SEEKFUNCTION, on_rewind);
    set(CURLOPT_SEEKDATA, &exchange);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method == "POST") {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(0));
    set(CURLOPT_POSTFIELDS, "");
  } else {
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }

  const CURLcode code = curl_easy_perform(handle);
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  const char* url = nullptr;
  curl_easy_getinfo(handle, CURLINFO_EFFECTIVE_URL, &url);
  response.status = static_cast<int>(status);
  response.url = url == nullptr ? request.url : url;
  response.transport = transport_of(code);
  response.timed_out = code == CURLE_OPERATION_TIMEDOUT;
  if (code == CURLE_ABORTED_BY_CALLBACK) response.transport = Transport::kCancelled;
  if (exchange.too_large) {
    response.problem = std::string(kServerSends) + "more bytes than were asked for";
  } else if (exchange.headers > kMostHeaders) {
    response.problem =
        std::string(kServerSends) + "more than " + human_bytes(kMostHeaders) + " of headers";
    response.transport = Transport::kRefused;
  } else if (std::string fault = fault_of_length(response); !fault.empty()) {
    response.problem = std::move(fault);
    response.transport = Transport::kRefused;
  } else if (code != CURLE_OK) {
    response.problem = printable(problem[0] != '\0' ? problem : curl_easy_strerror(code));
    if (response.problem.starts_with("Invalid Content-Length")) {
      response.problem = wrong_length();
      response.transport = Transport::kRefused;
    }
    long tunnel = 0;
    curl_easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &tunnel);
    if (response.transport != Transport::kCancelled && stays_so(response.problem, tunnel))
      response.transport = Transport::kRefused;
    // libcurl shows the whole of it then, with its password.
    if (response.problem.starts_with("Unsupported proxy")) {
      response.transport = Transport::kRefused;
      response.problem = "the environment names a proxy by what is not an address of one";
    }
  }
  if (response.transport == Transport::kAnswered || response.transport == Transport::kBroken)
    remember(request.url);
  curl_slist_free_all(headers);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
  give_handle(handle);
  return response;
}

}  // namespace muster::inline v0_1::stores::internal
