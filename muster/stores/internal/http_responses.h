// What answers of web servers say: errors in words, ranges, dates. Thread safety: pure functions.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/object_service.h"

namespace muster::inline v0_1::stores::internal {

// Makes the error of a request that failed. `what` is "read 's3://a/b'"; `code` and `message` are
// the service's own words, if it had any; `hint` says what to do where the status alone decides
// nothing better. The kind follows the status: 404 NotFound; 408, 429 and 5xx Unavailable; no
// answer in time Timeout; others, 501 and 507 (the disk of the service is full), InvalidArgument.
Error response_error(const HttpResponse& response, const std::string& what, const std::string& code,
                     const std::string& message, const std::string& hint);

// The status that belongs to a code of S3's errors, as "SlowDown"; 400 for those that say nothing
// of trying again, of what is not there, or of rights.
int status_of_code(const std::string& code);

// An answer of success whose body is an error gets the status of that error: <Error> of S3 and of
// the XML API of Google, which CompleteMultipartUpload, CopyObject and others may send with 200
// when they fail late, and {"error": ...} of the JSON API. Not for answers that are an object's
// bytes.
void take_status_of_body(HttpResponse& response);

// "bytes 5-9/100".
struct ContentRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // after the last byte
  std::optional<uint64_t> size{};
};
// Nothing when it is none, or its numbers are not sizes.
std::optional<ContentRange> parse_content_range(const std::string& text);
// The error of an answer with another range, or another word of it, than was asked for.
Error wrong_range(const HttpResponse& response, const std::string& uri, uint64_t begin);

// The error of a list in which an object has `size`, which is none.
Error no_size(const std::string& key, const std::string& size, const std::string& what);

// Reads a number of bytes, digits alone; nothing when it is none or has 2^63 and more.
std::optional<uint64_t> parse_size(std::string_view text);

// Reads "Sun, 06 Nov 1994 08:49:37 GMT" as Unix time; 0 when it is none.
double parse_http_date(const std::string& text);
// Reads "2026-01-31T12:00:00.5Z" as Unix time; nothing when it is none.
std::optional<double> parse_iso_time(const std::string& text);

// As parse_json(), for texts that hold secrets: the error says where the text is wrong, and quotes
// nothing of it.
Result<nlohmann::json> parse_secret_json(const std::string& text, const std::string& what);

// How one service is asked for a part of an object.
struct RangeRequest {
  std::string uri{};      // for errors
  std::string version{};  // that is wanted; empty: any
  uint64_t offset = 0;
  MutableBytes out{};
  // Builds a request; `range` is a header, `version` may be empty.
  std::function<Result<HttpRequest>(const std::string& range, const std::string& version)> make{};
  std::function<ObjectInfo(const HttpResponse&)> info_of{};
  std::function<RetryDecision(const HttpResponse&)> judge{};
  std::function<Error(const HttpResponse&)> error_of{};
  Cancellation* cancellation = nullptr;
};

// Reads the range. A transfer that breaks is continued after what came. Returns Unavailable when
// the version changed, and Corrupt when the server gives another range than it was asked for.
Result<RangeRead> read_range(HttpClient& client, const RangeRequest& request);

}  // namespace muster::inline v0_1::stores::internal
