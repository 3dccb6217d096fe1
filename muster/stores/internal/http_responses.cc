#include "muster/stores/internal/http_responses.h"

#include <curl/curl.h>

#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "muster/base/json.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::stores::internal {
namespace {

ErrorKind kind_of(const HttpResponse& response) {
  switch (response.transport) {
    case Transport::kAnswered:
      break;
    case Transport::kNoContact:
    case Transport::kBroken:
      return response.timed_out ? ErrorKind::kTimeout : ErrorKind::kUnavailable;
    case Transport::kRefused:
      return ErrorKind::kInvalidArgument;
    case Transport::kCancelled:
      return ErrorKind::kCancelled;
  }
  const int status = response.status;
  if (status == 404 || status == 410) return ErrorKind::kNotFound;
  if (status == 501 || status == 505 || status == 507)
    return ErrorKind::kInvalidArgument;  // which stays so
  if (status == 408 || status == 409 || status == 412 || status == 429 || status >= 500)
    return ErrorKind::kUnavailable;
  return ErrorKind::kInvalidArgument;
}

constexpr const char* kProxyAdvice =
    "write https_proxy, http_proxy or all_proxy as http://USER:PASSWORD@HOST:PORT, with %40 for an "
    "@ of the password";

// What to do about what libcurl and OpenSSL say of a connection; "" when it is about neither TLS
// nor a proxy.
std::string advice_on_connection(const std::string& problem) {
  const auto says = [&](const char* words) { return problem.find(words) != std::string::npos; };
  if (says("tunnel failed, response 407") || says("names a proxy")) return kProxyAdvice;
  if (says("tunnel failed, response 4"))
    return "the proxy forbids it: ask its owner, or add the host to no_proxy if it can be reached "
           "without the proxy";
  if (says("wrong version number")) {
    return "the server does not use TLS at this port: write http:// instead of https:// if you "
           "trust the network";
  }
  if (says("expired") || says("not yet valid"))
    return "let the server's owner renew its certificate, or set this machine's clock";
  if (says(" alert ")) {
    return "the server refuses the TLS handshake: it may require client certificates, or TLS "
           "versions or ciphers that this machine does not have; ask its owner, or use a proxy";
  }
  if (says("subject name"))
    return "use the server name in its certificate, or ask its owner for a certificate with this "
           "name";
  if (!says("certificate")) return "";
  return "name the file of certificates to trust: SSL_CERT_FILE=FILE, or AWS_CA_BUNDLE=FILE for "
         "s3:// alone";
}

Error replaced(const std::string& uri) {
  return Error(ErrorKind::kUnavailable, "'" + uri + "' was replaced while it was read",
               "read it again from its beginning; data that others read should be written under a "
               "new name");
}

}  // namespace

Error response_error(const HttpResponse& response, const std::string& what, const std::string& code,
                     const std::string& message, const std::string& hint) {
  std::string text = "cannot " + what + ": ";
  std::string advice = hint;
  if (response.transport == Transport::kAnswered) {
    text += "the server answers " + std::to_string(response.status);
    if (!code.empty()) text += " " + printable_beginning(code);
    if (!message.empty()) text += " (" + printable_beginning(message, 300) + ")";
    if (response.status == 407) advice = kProxyAdvice;
    if (advice.empty() && (response.status == 429 || response.status >= 500) &&
        kind_of(response) == ErrorKind::kUnavailable)
      advice = "the service is busy or at fault: try again later";
  } else if (response.transport == Transport::kCancelled) {
    text += "it was cancelled";
  } else {
    text += response.problem;
    if (response.transport == Transport::kNoContact) {
      advice =
          "check the address and the network; a proxy is named by https_proxy, http_proxy or "
          "all_proxy";
      // Of OpenSSL 3, at a server that closes the connection when it reads the first bytes of TLS.
      if (response.problem.find("unexpected eof") != std::string::npos)
        advice +=
            "; if the server does not use TLS at this port, write http:// instead of https://";
    } else {
      advice = advice_on_connection(response.problem);
      if (advice.empty() && response.problem.starts_with(kServerSends))
        advice = hint.empty()
                     ? "the server, or a proxy in front of it, is at fault: read from another one"
                     : hint;
      if (advice.empty() && response.timed_out)
        advice = "the server was reached and gives no answer in time: see whether it works";
    }
  }
  if (response.attempts > 1) {
    text += "; tried " + std::to_string(response.attempts) + " times in " +
            human_duration(response.seconds);
  }
  return Error(kind_of(response), text, advice);
}

int status_of_code(const std::string& code) {
  static const std::map<std::string, int, std::less<>> kStatus = {{"InternalError", 500},
                                                                  {"SlowDown", 503},
                                                                  {"ServiceUnavailable", 503},
                                                                  {"Busy", 503},
                                                                  {"Throttling", 503},
                                                                  {"ThrottlingException", 503},
                                                                  {"TooManyRequests", 429},
                                                                  {"RequestTimeout", 408},
                                                                  {"RequestThrottled", 429},
                                                                  {"RequestLimitExceeded", 503},
                                                                  {"BandwidthLimitExceeded", 503},
                                                                  {"OperationAborted", 409},
                                                                  {"PreconditionFailed", 412},
                                                                  {"NoSuchUpload", 404},
                                                                  {"NoSuchKey", 404},
                                                                  {"NoSuchBucket", 404},
                                                                  {"NoSuchVersion", 404},
                                                                  {"AccessDenied", 403},
                                                                  {"InvalidAccessKeyId", 403},
                                                                  {"SignatureDoesNotMatch", 403},
                                                                  {"RequestTimeTooSkewed", 403},
                                                                  {"AllAccessDisabled", 403},
                                                                  {"AccountProblem", 403},
                                                                  {"NotImplemented", 501}};
  const auto found = kStatus.find(code);
  return found == kStatus.end() ? 400 : found->second;
}

void take_status_of_body(HttpResponse& response) {
  if (!response.ok()) return;
  const std::string_view body = trim(response.body);
  if (body.starts_with("<")) {
    pugi::xml_document xml;
    // One that was cut off is an error too: what could be read of it says so.
    xml.load_buffer(body.data(), body.size());
    if (const pugi::xml_node error = xml.child("Error"))
      response.status = status_of_code(error.child_value("Code"));
  } else if (body.starts_with("{") && body.find("\"error\"") != std::string_view::npos) {
    const auto json = nlohmann::json::parse(body, nullptr, false);
    if (!json.is_object() || !json.contains("error")) return;
    const nlohmann::json& error = json["error"];
    const int code =
        error.is_object() && error.contains("code") && error["code"].is_number_integer()
            ? error["code"].get<int>()
            : 0;
    response.status = code >= 400 && code < 600 ? code : 500;
  }
}

std::optional<uint64_t> parse_size(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  const auto size = parse_int(text);
  return size ? std::optional<uint64_t>(static_cast<uint64_t>(*size)) : std::nullopt;
}

std::optional<ContentRange> parse_content_range(const std::string& text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  const std::vector<std::string> halves = split(std::string_view(text).substr(6), '/');
  if (halves.size() != 2) return std::nullopt;
  ContentRange range;
  if (halves[1] != "*" && !(range.size = parse_size(halves[1]))) return std::nullopt;
  if (halves[0] == "*") return range;
  const std::vector<std::string> ends = split(halves[0], '-');
  if (ends.size() != 2) return std::nullopt;
  const auto first = parse_size(ends[0]);
  const auto last = parse_size(ends[1]);
  if (!first || !last || *last < *first) return std::nullopt;
  range.begin = *first;
  range.end = *last + 1;
  return range;
}

double parse_http_date(const std::string& text) {
  const time_t time = curl_getdate(text.c_str(), nullptr);
  return time < 0 ? 0 : static_cast<double>(time);
}

std::optional<double> parse_iso_time(const std::string& text) {
  std::tm parts{};
  double seconds = 0;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%lf", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &seconds) != 6 ||
      !(seconds >= 0 && seconds < 61)) {
    return std::nullopt;
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return static_cast<double>(timegm(&parts)) + seconds;
}

Error wrong_range(const HttpResponse& response, const std::string& uri, uint64_t begin) {
  return corrupt("the server answers " + std::to_string(response.status) + " with the range '" +
                     printable_beginning(response.header("content-range")) + "' of '" + uri +
                     "', but was asked for bytes from " + std::to_string(begin),
                 "the server or a proxy is at fault: read from another one");
}

Error no_size(const std::string& key, const std::string& size, const std::string& what) {
  return corrupt("cannot " + what + ": the service gives '" + printable_beginning(key) +
                     "' the size '" + printable_beginning(size) +
                     "', which is not a number of bytes",
                 "the service, or who answers in its place, is at fault");
}

Result<nlohmann::json> parse_secret_json(const std::string& text, const std::string& what) {
  Result<nlohmann::json> json = parse_json(text, what);
  if (json.ok()) return json;
  std::string message = json.error().message();
  const std::string verdict = what + " is not valid JSON";
  // "... at line 1, column 9: what was expected, and the text there".
  if (message.starts_with(verdict)) message.resize(message.find(": ", verdict.size()));
  return Error(json.error().kind(), message, "write it again, as its service returns it");
}

Result<RangeRead> read_range(HttpClient& client, const RangeRequest& request) {
  RangeRead read;
  std::string version = request.version;
  bool whole = false;  // the server answered with everything
  bool empty = false;  // there are no bytes
  const auto make = [&]() -> Result<HttpRequest> {
    const uint64_t begin = request.offset + read.bytes;
    const std::string range = "Range: bytes=" + std::to_string(begin) + "-" +
                              std::to_string(request.offset + request.out.size() - 1);
    Result<HttpRequest> made = request.make(range, version);
    if (made.ok()) made.value().into = request.out.subspan(read.bytes);
    return made;
  };
  std::optional<Error> wrong;
  // Takes over what came of the answer; whether it was what we asked for.
  const auto take = [&](const HttpResponse& response) {
    if (response.status / 100 != 2) return true;
    const ObjectInfo info = request.info_of(response);
    if (!version.empty() && info.version != version) {
      wrong = replaced(request.uri);
      return false;
    }
    const auto range = parse_content_range(response.header("content-range"));
    const uint64_t begin = request.offset + read.bytes;
    if (response.status != 206 && response.status != 200) {
      wrong = wrong_range(response, request.uri, begin);
      return false;
    }
    if (response.status == 200) {
      // The whole file from its beginning: of use only at offset 0.
      if (begin != 0) {
        wrong = Error(ErrorKind::kInvalidArgument,
                      "cannot read bytes from " + std::to_string(begin) + " of '" + request.uri +
                          "': the server answers with the whole instead of a range",
                      "copy the file to a disk and read it there");
        return false;
      }
      whole = response.ok();
      if (whole) {
        read.info = info;
        read.bytes = response.received;
        read.info.size = read.bytes;
      }
      return true;
    }
    if (range && range->size == 0) {
      // Some servers give a range of an empty file, in place of 416, and then no byte of it.
      read.info = info;
      read.info.size = 0;
      empty = true;
      return true;
    }
    if (!range || range->begin != begin || !range->size || range->end > *range->size ||
        response.received > range->end - range->begin) {
      wrong = wrong_range(response, request.uri, begin);
      return false;
    }
    read.info = info;
    read.info.size = *range->size;
    // Where we continue with the rest, it must be of this version.
    version = info.version;
    // Without a version what follows may be of another file: such a transfer begins again.
    if (response.ok() || !version.empty()) read.bytes += response.received;
    return true;
  };
  const auto judge = [&](const HttpResponse& response) {
    if (response.transport == Transport::kBroken && response.status / 100 == 2 &&
        (!take(response) || empty)) {
      return RetryDecision::kFinal;
    }
    return request.judge ? request.judge(response) : RetryDecision::kByStatus;
  };
  while (true) {
    Result<HttpResponse> answer =
        perform_with_retries(client, {.what = "read '" + request.uri + "'",
                                      .make = make,
                                      .judge = judge,
                                      .error_of = request.error_of,
                                      .cancellation = request.cancellation});
    if (!answer.ok()) return answer.error();
    if (wrong) return *wrong;
    if (empty) return read;
    const HttpResponse& response = answer.value();
    if (response.transport == Transport::kAnswered && response.status == 416) {
      const auto range = parse_content_range(response.header("content-range"));
      read.info = request.info_of(response);
      read.info.size = range && range->size ? *range->size : 0;
      const uint64_t begin = request.offset + read.bytes;
      // There are such bytes, or there were some before.
      if (read.info.size > begin || begin > request.offset)
        return wrong_range(response, request.uri, begin);
      return read;
    }
    if (response.transport == Transport::kAnswered && response.status == 412)
      return replaced(request.uri);
    if (!response.ok()) return request.error_of(response);
    const size_t before = read.bytes;
    if (!take(response)) return *wrong;
    if (whole || read.bytes == request.out.size() ||
        request.offset + read.bytes >= read.info.size) {
      return read;
    }
    if (read.bytes == before) {
      return corrupt("the server gives no bytes of '" + request.uri + "' from " +
                     std::to_string(request.offset + before) + " on");
    }
  }
}

}  // namespace muster::inline v0_1::stores::internal
