#include "muster/stores/internal/s3_service.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <pugixml.hpp>
#include <span>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/answers.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/s3_upload.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// The code and message of an <Error>.
struct S3Words {
  std::string code;
  std::string message;
  std::string region;
};

S3Words words_of(const std::string& body) {
  pugi::xml_document xml;
  if (!xml.load_buffer(body.data(), body.size())) return {};
  const pugi::xml_node error = xml.child("Error");
  return {error.child_value("Code"), error.child_value("Message"), error.child_value("Region")};
}

// Whether the answer of a request that answers late came to its end, and is no error:
// <CopyObjectResult>, <CopyPartResult> or <CompleteMultipartUploadResult>.
bool tells_result(const std::string& body) {
  pugi::xml_document xml;
  return xml.load_buffer(body.data(), body.size()) &&
         std::string_view(xml.document_element().name()).ends_with("Result");
}

// Whether a service refuses a request for the checksum that it carries, and not for something else:
// some do not know the header, and each says so in other words.
bool refuses_checksums(int status, const S3Words& words) {
  if (status != 400 && status != 501) return false;
  return words.code == "NotImplemented" || words.code == "InvalidArgument" ||
         words.code == "InvalidRequest" || words.code == "XAmzContentSHA256Mismatch";
}

ObjectInfo info_of(const HttpResponse& response) {
  ObjectInfo info;
  info.version = response.header("etag");
  info.size = static_cast<uint64_t>(parse_int(response.header("content-length")).value_or(0));
  info.modified_seconds = parse_http_date(response.header("last-modified"));
  // The ETag is the MD5 of what was sent in one request, unless the object is encrypted with keys
  // of the customer's.
  const std::string encryption = response.header("x-amz-server-side-encryption");
  if (!encryption.starts_with("aws:kms") &&
      response.header("x-amz-server-side-encryption-customer-algorithm").empty()) {
    info.md5 = md5_of_etag(info.version);
  }
  return info;
}

}  // namespace

std::optional<std::string> md5_of_etag(const std::string& etag) {
  std::string digits = etag;
  std::erase(digits, '"');
  if (digits.size() != 32 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  std::string digest;
  for (size_t at = 0; at < digits.size(); at += 2)
    digest += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
  return digest;
}

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
  // What is signed as a whole needs no second checksum.
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
      .stall_seconds = call.slow ? 10 * options_.limits.stall_seconds : 0};
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

Verdict S3Service::judge(Call& call, const HttpResponse& response) {
  if (response.transport != Transport::kAnswered) return Verdict::kByStatus;
  if (response.ok()) {
    if (call.unchecked) knows_checksums_ = false;
    return call.answers_late && !tells_result(response.body) ? Verdict::kAgain : Verdict::kFinal;
  }
  const S3Words words = words_of(response.body);
  const int status = response.status;
  std::string region = response.header("x-amz-bucket-region");
  if (region.empty() && words.code == "AuthorizationHeaderMalformed") region = words.region;
  if ((status == 301 || status == 307 || status == 400 || status == 403) && !region.empty() &&
      region != region_of(call.object.bucket)) {
    std::lock_guard lock(mutex_);
    regions_[call.object.bucket] = region;
    return Verdict::kAtOnce;
  }
  if (status == 403) {
    // A clock that is minutes off makes signatures worthless; a HEAD does not say that in words.
    const double theirs = parse_http_date(response.header("date"));
    const double ours = options_.limits.clock->wall_seconds();
    std::lock_guard lock(mutex_);
    if ((words.code == "RequestTimeTooSkewed" || words.code.empty()) && theirs > 0 &&
        std::abs(theirs - ours - clock_offset_) > 240) {
      clock_offset_ = theirs - ours;
      return Verdict::kAtOnce;
    }
  }
  if (words.code == "ExpiredToken" || words.code == "InvalidToken" ||
      words.code == "TokenRefreshRequired") {
    // Those that stand in the environment stay what they are, however often they are tried.
    return call.used_key && credentials_.renew(*call.used_key) ? Verdict::kAtOnce : Verdict::kFinal;
  }
  if (call.checked && refuses_checksums(status, words)) {
    // Whether that was why, the next try shows.
    call.unchecked = true;
    return Verdict::kAtOnce;
  }
  if (words.code == "RequestTimeout" || words.code == "OperationAborted") return Verdict::kAgain;
  return Verdict::kByStatus;
}

Result<HttpResponse> S3Service::send(Call call, Cancellation* cancellation) {
  return send_call(call, cancellation);
}

Result<HttpResponse> S3Service::send_call(Call& call, Cancellation* cancellation) {
  Result<HttpResponse> answer = perform_with_retries(
      client_, call.what, [&] { return build(call); },
      [&](const HttpResponse& response) { return judge(call, response); }, cancellation);
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
              "their session has ended, or is none of this service: get new ones, as with aws "
              "sso login, and put all three in place of these (docs/buckets.md)";
        } else if (words.code == "InvalidAccessKeyId") {
          hint += "the service does not know this key; check it, and AWS_ENDPOINT_URL";
        } else {
          hint += "let the owner of the bucket permit it to them, or use others (docs/buckets.md)";
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
    } else if (words.code == "BadDigest" || words.code == "XAmzContentSHA256Mismatch") {
      hint = "bytes were changed on the way: write it again; if it goes on, a proxy is at fault";
    } else if (words.code == "EntityTooSmall") {
      hint = "make the store's part_bytes at least 5 MiB";
    }
  }
  return answer_error(response, call.what, words.code, message, hint);
}

Result<ObjectInfo> S3Service::look(const ObjectName& object) {
  const Call call{.what = "look at '" + object.uri() + "'", .method = "HEAD", .object = object};
  Result<HttpResponse> answer = send(call);
  if (!answer.ok()) return answer.error();
  return info_of(answer.value());
}

Result<RangeRead> S3Service::read(const ObjectName& object, const std::string& version,
                                  uint64_t offset, MutableBytes out, Cancellation* cancellation) {
  Call call{.what = "read '" + object.uri() + "'", .object = object};
  return read_range(
      client_, {.uri = object.uri(),
                .version = version,
                .offset = offset,
                .out = out,
                .make =
                    [&](const std::string& range, const std::string& wanted) {
                      call.headers = {{"range", range.substr(range.find(' ') + 1)}};
                      if (!wanted.empty()) call.headers["if-match"] = wanted;
                      return build(call);
                    },
                .info_of = info_of,
                .judge = [&](const HttpResponse& response) { return judge(call, response); },
                .error_of = [&](const HttpResponse& response) { return error_of(call, response); },
                .cancellation = cancellation});
}

Result<ObjectInfo> S3Service::put(const ObjectName& object, Bytes bytes) {
  Result<HttpResponse> answer = send({.what = "write '" + object.uri() + "'",
                                      .method = "PUT",
                                      .object = object,
                                      .body = bytes,
                                      .is_content = true});
  if (!answer.ok()) return answer.error();
  ObjectInfo info = info_of(answer.value());
  info.size = bytes.size();
  return info;
}

Result<std::unique_ptr<PartUpload>> S3Service::begin_upload(const ObjectName& object) {
  Result<std::unique_ptr<Upload>> upload = Upload::begin(*this, object, true);
  if (!upload.ok()) return upload.error();
  return std::unique_ptr<PartUpload>(std::move(upload).value());
}

Result<S3Service::SentPart> S3Service::send_part(const ObjectName& object,
                                                 const std::string& upload, int number, Bytes part,
                                                 bool with_checksum, Cancellation* cancellation) {
  Call call{.what = "write part " + std::to_string(number) + " of '" + object.uri() + "'",
            .method = "PUT",
            .object = object,
            .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
            .body = part,
            .is_content = with_checksum};
  Result<HttpResponse> answer = send_call(call, cancellation);
  if (!answer.ok()) return answer.error();
  return SentPart{answer.value().header("etag"), call.checksum};
}

Result<std::string> S3Service::copy_part(const ObjectName& object, const std::string& upload,
                                         int number, const ObjectName& from, const ObjectInfo& info,
                                         uint64_t begin, uint64_t end) {
  Call call{
      .what = "copy '" + from.uri() + "' into '" + object.uri() + "'",
      .method = "PUT",
      .object = object,
      .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload}},
      .headers = {{"x-amz-copy-source", "/" + from.bucket + "/" + percent_encode(from.key, true)},
                  {"x-amz-copy-source-range",
                   "bytes=" + std::to_string(begin) + "-" + std::to_string(end - 1)}},
      .slow = true,
      .answers_late = true};
  if (!info.version.empty()) call.headers["x-amz-copy-source-if-match"] = info.version;
  Result<HttpResponse> answer = send(call);
  if (!answer.ok()) return answer.error();
  pugi::xml_document xml;
  xml.load_string(answer.value().body.c_str());
  return std::string(xml.child("CopyPartResult").child_value("ETag"));
}

Result<ObjectInfo> S3Service::copy_in_parts(const ObjectName& from, const ObjectInfo& info,
                                            const ObjectName& to, Bytes tail) {
  // What the service copies has whatever checksums it has.
  Result<std::unique_ptr<Upload>> begun = Upload::begin(*this, to, false);
  if (!begun.ok()) return begun.error();
  Upload& upload = *begun.value();
  // As large as the service takes and few: 5 GiB at most, and no part but the last below 5 MiB.
  constexpr uint64_t kMost = uint64_t{5} << 30;
  const uint64_t parts = (info.size + kMost - 1) / kMost;
  int number = 0;
  for (uint64_t part = 0; part < parts; ++part) {
    const uint64_t begin = info.size * part / parts;
    const uint64_t end = info.size * (part + 1) / parts;
    Result<std::string> etag = copy_part(to, upload.id(), ++number, from, info, begin, end);
    if (!etag.ok()) return etag.error();
    upload.add_part(number, {etag.value(), ""});
  }
  if (!tail.empty()) {
    Result<SentPart> sent = send_part(to, upload.id(), ++number, tail, false, nullptr);
    if (!sent.ok()) return sent.error();
    upload.add_part(number, sent.value());
  }
  if (Status finished = upload.finish(); !finished.ok()) return finished.error();
  ObjectInfo made;
  made.size = info.size + tail.size();
  made.version = upload.etag();
  return made;
}

Result<ObjectInfo> S3Service::extend(const ObjectName& object, const ObjectInfo& base, Bytes tail) {
  Result<ObjectInfo> extended = copy_in_parts(object, base, object, tail);
  if (extended.ok() || extended.error().message().find("NotImplemented") == std::string::npos)
    return extended;
  return send_again(object, base, tail);
}

// For servers that copy no parts: the bytes come here and go back.
Result<ObjectInfo> S3Service::send_again(const ObjectName& object, const ObjectInfo& base,
                                         Bytes tail) {
  Result<std::unique_ptr<Upload>> begun = Upload::begin(*this, object, true);
  if (!begun.ok()) return begun.error();
  Upload& upload = *begun.value();
  Cancellation never;
  std::string part;
  int number = 0;
  for (uint64_t offset = 0; offset < base.size; offset += part.size()) {
    part.resize(std::min<uint64_t>(upload.part_bytes(++number), base.size - offset));
    Result<RangeRead> read =
        this->read(object, base.version, offset, std::as_writable_bytes(std::span(part)), &never);
    if (!read.ok()) return read.error();
    if (read.value().bytes != part.size())
      return corrupt("'" + object.uri() + "' became shorter while it was written to");
    if (offset + part.size() == base.size) part.append(text_of(tail));
    if (Status sent = upload.send(number, bytes_of(part), false, never); !sent.ok())
      return sent.error();
  }
  if (Status finished = upload.finish(); !finished.ok()) return finished.error();
  ObjectInfo made;
  made.size = base.size + tail.size();
  made.version = upload.etag();
  return made;
}

Status S3Service::copy(const ObjectName& from, const ObjectInfo& info, const ObjectName& to) {
  constexpr uint64_t kMostInOne = uint64_t{5} << 30;
  if (info.size > kMostInOne) {
    Result<ObjectInfo> copied = copy_in_parts(from, info, to, {});
    return copied.ok() ? Status() : Status(copied.error());
  }
  Call call{
      .what = "copy '" + from.uri() + "' to '" + to.uri() + "'",
      .method = "PUT",
      .object = to,
      .headers = {{"x-amz-copy-source", "/" + from.bucket + "/" + percent_encode(from.key, true)}},
      .slow = true,
      .answers_late = true};
  if (!info.version.empty()) call.headers["x-amz-copy-source-if-match"] = info.version;
  Result<HttpResponse> answer = send(call);
  return answer.ok() ? Status() : Status(answer.error());
}

Result<ListPage> S3Service::list(const ObjectName& bucket, const std::string& prefix, bool flat,
                                 const std::string& next, int most) {
  const ObjectName whole = bucket.with_key("");
  Call call{.what = "list '" + bucket.with_key(prefix).uri() + "'",
            .object = whole,
            .query = {{"list-type", "2"}, {"prefix", prefix}}};
  if (!flat) call.query.add("delimiter", "/");
  if (!next.empty()) call.query.add("continuation-token", next);
  if (most > 0) call.query.add("max-keys", std::to_string(most));
  Result<HttpResponse> answer = send(call);
  if (!answer.ok()) return answer.error();
  pugi::xml_document xml;
  const bool complete = xml.load_buffer(answer.value().body.data(), answer.value().body.size());
  const pugi::xml_node result = xml.child("ListBucketResult");
  if (result && !complete) {
    return Error(ErrorKind::kUnavailable, "cannot " + call.what + ": the answer was cut off",
                 "try again; if it goes on, a proxy may be at fault");
  }
  if (!result) {
    return invalid_argument("cannot " + call.what + ": the answer is no list of S3",
                            "check AWS_ENDPOINT_URL: another service seems to answer there");
  }
  ListPage page;
  for (const pugi::xml_node entry : result.children("Contents")) {
    page.keys.emplace_back(entry.child_value("Key"));
    page.infos.push_back(
        {.size = entry.child("Size").text().as_ullong(),
         .modified_seconds = parse_iso_time(entry.child_value("LastModified")).value_or(0)});
  }
  for (const pugi::xml_node entry : result.children("CommonPrefixes"))
    page.prefixes.emplace_back(entry.child_value("Prefix"));
  if (std::strcmp(result.child_value("IsTruncated"), "true") == 0) {
    page.next = result.child_value("NextContinuationToken");
    if (page.next.empty()) {
      return invalid_argument(
          "cannot " + call.what + ": the answer is one page of several, and names no next one",
          "the service does not know version 2 of S3's lists: use another one");
    }
  }
  return page;
}

Status S3Service::remove(const ObjectName& object) {
  Result<HttpResponse> answer =
      send({.what = "remove '" + object.uri() + "'", .method = "DELETE", .object = object});
  if (answer.ok() || answer.error().kind() == ErrorKind::kNotFound) return {};
  return answer.error();
}

Status S3Service::remove_all(const ObjectName& bucket, const std::vector<std::string>& keys) {
  pugi::xml_document xml;
  pugi::xml_node list = xml.append_child("Delete");
  list.append_child("Quiet").text().set("true");
  for (const std::string& key : keys)
    list.append_child("Object").append_child("Key").text().set(key.c_str());
  struct Text : pugi::xml_writer {
    void write(const void* data, size_t size) override {
      text.append(static_cast<const char*>(data), size);
    }
    std::string text;
  } body;
  xml.save(body, "", pugi::format_raw);
  const ObjectName whole = bucket.with_key("");
  const std::string what = "remove " + std::to_string(keys.size()) + " objects of '" + whole.uri() +
                           "', of which the first is '" + (keys.empty() ? "" : keys[0]) + "'";
  Result<HttpResponse> answer =
      send({.what = what,
            .method = "POST",
            .object = whole,
            .query = {{"delete", ""}},
            .headers = {{"content-md5", to_base64(md5(bytes_of(body.text)))},
                        {"content-type", "application/xml"}},
            .body = bytes_of(body.text)});
  if (!answer.ok()) return answer.error();
  pugi::xml_document said;
  said.load_buffer(answer.value().body.data(), answer.value().body.size());
  const pugi::xml_node failed = said.child("DeleteResult").child("Error");
  if (!failed) return {};
  return invalid_argument("cannot remove '" + whole.with_key(failed.child_value("Key")).uri() +
                          "': " + failed.child_value("Code") + " (" +
                          failed.child_value("Message") + ")");
}

}  // namespace muster::inline v0_1::stores::internal
