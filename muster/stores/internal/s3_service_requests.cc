// How S3Service signs its requests, and which facts it derives from their answers.
#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/http_responses.h"
#include "muster/stores/internal/s3_service.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// The code and message of an <Error>.
struct S3Words {
  std::string code{};
  std::string message{};
  std::string region{};
};

S3Words words_of(const std::string& body) {
  pugi::xml_document xml;
  if (!xml.load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node error = xml.child("Error");
  return {error.child_value("Code"), error.child_value("Message"), error.child_value("Region")};
}

// Whether the answer of a request that answers late is complete, and is not an error:
// <CopyObjectResult>, <CopyPartResult> or <CompleteMultipartUploadResult>.
bool tells_result(const std::string& body) {
  pugi::xml_document xml;
  return xml.load_buffer(body.data(), body.size()) &&
         std::string_view(xml.document_element().name()).ends_with("Result");
}

// Whether this is the name of a region, which becomes a part of addresses and headers.
bool is_region(const std::string& text) {
  return !text.empty() && text.size() < 64 && std::ranges::all_of(text, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
  });
}

// Whether a service refuses a request for the checksum that it carries, and not for another reason:
// some do not know the header, and each says so in its own way.
bool refuses_checksums(int status, const S3Words& words) {
  if (status != 400 && status != 501) return false;
  return words.code == "NotImplemented" || words.code == "InvalidArgument" ||
         words.code == "InvalidRequest" || words.code == "XAmzContentSHA256Mismatch";
}

}  // namespace

S3Service::S3Service(S3Options options)
    : options_(std::move(options)),
      client_(options_.limits),
      credentials_(options_.environment, options_.region, options_.limits),
      knows_checksums_(options_.checksums) {}

std::string S3Service::region_of(const std::string& bucket) {
  std::lock_guard lock(mutex_);
  const auto known = regions_.find(bucket);
  if (known != regions_.end()) return known->second;
  return options_.region.empty() ? "us-east-1" : options_.region;
}

std::string S3Service::endpoint_of(const std::string& bucket) {
  if (!options_.endpoint.empty()) return options_.endpoint;
  const std::string region = region_of(bucket);
  return "https://s3." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : "");
}

bool S3Service::uses_checksums() const {
  // A request that is signed as a whole needs no second checksum.
  return knows_checksums_ && (!options_.endpoint.starts_with("http:") || options_.unsigned_http);
}

Result<HttpRequest> S3Service::build(Call& call) {
  const std::string region = region_of(call.object.bucket);
  const std::string& bucket = call.object.bucket;
  std::string origin = endpoint_of(bucket);
  // A name with dots does not fit the service's certificate.
  const bool in_path = !options_.endpoint.empty() || bucket.find('.') != std::string::npos;
  if (!in_path) origin.insert(origin.find("://") + 3, bucket + ".");
  call.checksum.clear();
  std::map<std::string, std::string> headers = call.headers;
  if (options_.requester_pays) headers["x-amz-request-payer"] = "requester";
  call.checked = (call.is_content || call.begins_parts) && !call.unchecked && uses_checksums();
  if (call.checked) {
    if (call.begins_parts) headers["x-amz-checksum-algorithm"] = "CRC32C";
    if (call.is_content) {
      call.checksum = crc32c_text(crc32c(call.body));
      headers["x-amz-checksum-crc32c"] = call.checksum;
    }
  }
  // Some services live below a path.
  const size_t host_begin = origin.find("://") + 3;
  const std::string base = origin.substr(std::min(origin.find('/', host_begin), origin.size()));
  origin.resize(origin.size() - base.size());
  // As libcurl does, which leaves the port of the scheme out of its Host header.
  const std::string_view port = origin.starts_with("https:") ? ":443" : ":80";
  if (origin.ends_with(port)) origin.resize(origin.size() - port.size());
  SignedRequest to_sign{
      .method = call.method,
      .host = origin.substr(host_begin),
      .path = base + (in_path ? "/" + bucket + "/" : "/") + percent_encode(call.object.key, true),
      .query = call.query.text(),
      .headers = headers,
      .payload_hash = ""};
  if (in_path && call.object.key.empty()) to_sign.path.pop_back();
  HttpRequest request{
      .method = call.method,
      .url = origin + to_sign.path + (to_sign.query.empty() ? "" : "?" + to_sign.query),
      .body = call.body,
      .most_body = kMostAnswer,
      .stall_seconds = call.slow ? 10 * options_.limits.stall_timeout.count() : 0};
  Result<std::optional<AwsCredentials>> credentials = credentials_.get();
  if (!credentials.ok()) return credentials.error();
  if (!credentials.value()) {
    for (const auto& [name, value] : headers) request.headers.push_back(name + ": " + value);
    return request;
  }
  call.used_key = credentials.value()->key;
  if (!call.checksum.empty()) {
    to_sign.payload_hash = "UNSIGNED-PAYLOAD";
  } else {
    if (call.body_hash.empty()) call.body_hash = hex(sha256(call.body));
    to_sign.payload_hash = call.body_hash;
  }
  double now = options_.limits.clock->wall_seconds();
  {
    std::lock_guard lock(mutex_);
    now += clock_offset_;
  }
  request.headers = sign(to_sign, credentials.value()->key, region, "s3", now);
  return request;
}

RetryDecision S3Service::judge(Call& call, const HttpResponse& response) {
  if (response.transport != Transport::kAnswered) return RetryDecision::kByStatus;
  if (response.ok()) {
    if (call.unchecked) knows_checksums_ = false;
    return call.answers_late && !tells_result(response.body) ? RetryDecision::kAgain
                                                             : RetryDecision::kFinal;
  }
  const S3Words words = words_of(response.body);
  const int status = response.status;
  std::string region = response.header("x-amz-bucket-region");
  if (region.empty() && words.code == "AuthorizationHeaderMalformed") region = words.region;
  if ((status == 301 || status == 307 || status == 400 || status == 403) && is_region(region) &&
      region != region_of(call.object.bucket)) {
    std::lock_guard lock(mutex_);
    regions_[call.object.bucket] = region;
    return RetryDecision::kAtOnce;
  }
  if (status == 403) {
    // A clock that is minutes off makes signatures worthless; a HEAD does not explain that.
    const double theirs = parse_http_date(response.header("date"));
    const double ours = options_.limits.clock->wall_seconds();
    std::lock_guard lock(mutex_);
    if ((words.code == "RequestTimeTooSkewed" || words.code.empty()) && theirs > 0 &&
        std::abs(theirs - ours - clock_offset_) > 240) {
      clock_offset_ = theirs - ours;
      return RetryDecision::kAtOnce;
    }
  }
  if (words.code == "ExpiredToken" || words.code == "InvalidToken" ||
      words.code == "TokenRefreshRequired") {
    // Credentials from the environment stay the same, however often they are tried.
    return call.used_key && credentials_.renew(*call.used_key) ? RetryDecision::kAtOnce
                                                               : RetryDecision::kFinal;
  }
  if (call.checked && refuses_checksums(status, words)) {
    // Whether that was why, the next try shows.
    call.unchecked = true;
    return RetryDecision::kAtOnce;
  }
  if (words.code == "NotImplemented" && call.headers.contains("x-amz-copy-source-range"))
    copies_parts_ = false;
  if (words.code == "RequestTimeout" || words.code == "OperationAborted")
    return RetryDecision::kAgain;
  return RetryDecision::kByStatus;
}

Result<HttpResponse> S3Service::send(Call call, Cancellation* cancellation) {
  return send_call(call, cancellation);
}

Result<HttpResponse> S3Service::send_call(Call& call, Cancellation* cancellation) {
  Result<HttpResponse> answer = perform_with_retries(
      client_, {.what = call.what,
                .make = [&] { return build(call); },
                .amend = take_status_of_body,
                .judge = [&](const HttpResponse& response) { return judge(call, response); },
                .error_of = [&](const HttpResponse& response) { return error_of(call, response); },
                .cancellation = cancellation});
  if (!answer.ok()) return answer.error().with_context("cannot " + call.what);
  if (!answer.value().ok()) return error_of(call, answer.value());
  if (call.answers_late && !tells_result(answer.value().body)) {
    answer.value().status = 500;
    return error_of(call, answer.value());
  }
  return answer;
}

Error S3Service::error_of(const Call& call, const HttpResponse& response) {
  const S3Words words = words_of(response.body);
  std::string hint;
  std::string message = words.message;
  if (response.transport == Transport::kAnswered) {
    const bool ended = words.code == "ExpiredToken" || words.code == "InvalidToken" ||
                       words.code == "TokenRefreshRequired";
    if (response.status == 403 || response.status == 401 || ended) {
      const Result<std::optional<AwsCredentials>> used = credentials_.get();
      if (used.ok() && used.value()) {
        hint = "the credentials were those of " + used.value()->source + " (key " +
               used.value()->key.key_id + "): ";
        if (words.code == "RequestTimeTooSkewed") {
          hint += "set this machine's clock";
        } else if (words.code == "SignatureDoesNotMatch") {
          hint += "the secret does not belong to the key, or a proxy changes requests";
        } else if (ended) {
          hint +=
              "their session has ended, or belongs to another service: get new ones, for example "
              "by aws sso login, and replace all three (docs/buckets.md)";
        } else if (words.code == "InvalidAccessKeyId") {
          hint += "the service does not know this key; check it, and AWS_ENDPOINT_URL";
        } else {
          hint += "let the owner of the bucket permit it to them, or use others (docs/buckets.md)";
          if (!options_.requester_pays)
            hint += "; where who asks pays for the bucket, set AWS_REQUEST_PAYER=requester";
        }
      } else {
        hint =
            "no credentials were found, and the bucket is not public: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (docs/buckets.md)";
      }
    } else if (words.code == "NoSuchBucket") {
      message =
          "there is no bucket '" + call.object.bucket + "' at " + endpoint_of(call.object.bucket);
      hint = "make it with the service's tools, or check its name and AWS_ENDPOINT_URL";
    } else if (response.status == 404) {
      hint = "check the name; the bucket '" + call.object.bucket + "' is there";
      if (words.code.empty()) hint = "check the names of the bucket and the object";
      if (call.object.has_empty_part()) hint = call.object.empty_part_hint();
    } else if (words.code == "BadDigest" || words.code == "XAmzContentSHA256Mismatch") {
      hint =
          "the bytes were damaged on the way: write the file again; if the error remains, a proxy "
          "causes it";
    } else if (words.code == "EntityTooSmall") {
      hint = "make the store's part_bytes at least 5 MiB";
    }
  }
  return response_error(response, call.what, words.code, message, hint);
}

}  // namespace muster::inline v0_1::stores::internal
