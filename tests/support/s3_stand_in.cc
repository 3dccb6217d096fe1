#include "tests/support/s3_stand_in.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <pugixml.hpp>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  return text;
}

std::string digest_bytes(const EVP_MD* kind, std::string_view text) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), bytes, &size, kind, nullptr);
  return {reinterpret_cast<const char*>(bytes), size};
}

std::string digest(const EVP_MD* kind, std::string_view text) {
  return hex_of(digest_bytes(kind, text));
}

std::string etag_of(std::string_view text) { return "\"" + digest(EVP_md5(), text) + "\""; }

// The checksum in the form of the header: base64 of four bytes, the highest first.
std::string checksum_of(std::string_view text) {
  const uint32_t crc = crc32c(bytes_of(text));
  const unsigned char bytes[4] = {
      static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
      static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
  unsigned char shown[9];
  EVP_EncodeBlock(shown, bytes, 4);
  return reinterpret_cast<const char*>(shown);
}

void refuse(httplib::Response& response, int status, const std::string& code,
            const std::string& more = "") {
  response.status = status;
  response.set_content("<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>said " +
                           code + "</Message>" + more + "</Error>",
                       "application/xml");
}

// The header as it was sent: cpp-httplib decodes text that looks like a part of a URL.
std::string sent_value(const httplib::Request& request, const std::string& name) {
  const std::string value = request.get_header_value(name.c_str());
  if (name != "x-amz-copy-source") return value;
  std::string encoded;
  for (const char letter : value) {
    char digits[4];
    const auto byte = static_cast<unsigned char>(letter);
    snprintf(digits, sizeof digits, "%%%02X", byte);
    const bool plain =
        std::isalnum(byte) != 0 || std::string_view("-._~/").find(letter) != std::string_view::npos;
    encoded += plain ? std::string(1, letter) : digits;
  }
  return encoded;
}

std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t from = begin + before.size();
  return text.substr(from, text.find(after, from) - from);
}

}  // namespace

S3StandIn::S3StandIn(std::string region)
    : region_(std::move(region)),
      server_(std::make_unique<WebServer>(
          [this](const httplib::Request& request, httplib::Response& response) {
            answer(request, response);
          })) {}

Environment S3StandIn::environment() const {
  return Environment{{"AWS_ENDPOINT_URL", server_->url()},
                     {"AWS_ACCESS_KEY_ID", kKey},
                     {"AWS_SECRET_ACCESS_KEY", kSecret},
                     {"AWS_EC2_METADATA_DISABLED", "true"}};
}

// Recomputes the signature from the received bytes, according to the documentation of Signature
// Version 4.
bool S3StandIn::admit(const httplib::Request& request, httplib::Response& response) {
  const std::string authorization = request.get_header_value("Authorization");
  if (authorization.empty()) {
    if (!public_) refuse(response, 403, "AccessDenied");
    return public_;
  }
  if (request.get_header_value("X-Amz-Security-Token") != token_) {
    refuse(response, 400, "ExpiredToken");
    return false;
  }
  const std::string stamp = request.get_header_value("X-Amz-Date");
  std::tm parts{};
  strptime(stamp.c_str(), "%Y%m%dT%H%M%SZ", &parts);
  const double now = static_cast<double>(time(nullptr)) + clock_offset_;
  if (std::abs(static_cast<double>(timegm(&parts)) - now) > 900) {
    const auto their_time = static_cast<time_t>(now);
    char text[64];
    std::tm shown{};
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&their_time, &shown));
    response.set_header("Date", text);
    refuse(response, 403, "RequestTimeTooSkewed");
    return false;
  }
  const std::vector<std::string> credential =
      split(between(authorization, "Credential=", ","), '/');
  if (credential.size() != 5 || credential[0] != kKey) {
    refuse(response, 403, "InvalidAccessKeyId");
    return false;
  }
  if (credential[2] != region_) {
    refuse(response, 400, "AuthorizationHeaderMalformed", "<Region>" + region_ + "</Region>");
    return false;
  }
  const size_t question = std::min(request.target.find('?'), request.target.size());
  std::string query = request.target.substr(std::min(question + 1, request.target.size()));
  std::vector<std::string> parameters = split(query, '&');
  std::ranges::sort(parameters);
  const std::string names = between(authorization, "SignedHeaders=", ",");
  std::string headers;
  for (const std::string& name : split(names, ';'))
    headers += name + ":" + sent_value(request, name) + "\n";
  const std::string payload = request.get_header_value("X-Amz-Content-Sha256");
  const bool checked = request.has_header("x-amz-checksum-crc32c");
  if (!checksums_ && (checked || request.has_header("x-amz-checksum-algorithm"))) {
    refuse(response, refusal_ == "NotImplemented" ? 501 : 400, refusal_);
    return false;
  }
  if (checked && request.get_header_value("x-amz-checksum-crc32c") != checksum_of(request.body)) {
    refuse(response, 400, "BadDigest");
    return false;
  }
  // Only bodies with a checksum may be unsigned.
  if (payload != digest(EVP_sha256(), request.body) &&
      !(checked && payload == "UNSIGNED-PAYLOAD")) {
    refuse(response, 400, "XAmzContentSHA256Mismatch");
    return false;
  }
  const std::string canonical = request.method + "\n" + request.target.substr(0, question) + "\n" +
                                join(parameters, "&") + "\n" + headers + "\n" + names + "\n" +
                                payload;
  const std::string scope = credential[1] + "/" + region_ + "/s3/aws4_request";
  const std::string key = proof_of(
      proof_of(proof_of(proof_of(std::string("AWS4") + kSecret, credential[1]), region_), "s3"),
      "aws4_request");
  const std::string expected = hex_of(proof_of(
      key, "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + digest(EVP_sha256(), canonical)));
  if (between(authorization, "Signature=", ",") == expected) return true;
  refuse(response, 403, "SignatureDoesNotMatch");
  return false;
}

void S3StandIn::fill(std::map<std::string, std::string> objects) {
  const std::lock_guard lock(mutex_);
  objects_ = std::move(objects);
}

void S3StandIn::answer(const httplib::Request& request, httplib::Response& response) {
  const std::lock_guard lock(mutex_);
  if (!admit(request, response)) return;
  if (requester_pays_ && request.get_header_value("x-amz-request-payer") != "requester")
    return refuse(response, 403, "AccessDenied");
  const std::string path = request.path;  // decoded
  const size_t slash = std::min(path.find('/', 1), path.size());
  if (path.substr(0, slash) != "/bucket") return refuse(response, 404, "NoSuchBucket");
  const std::string key = path.substr(std::min(slash + 1, path.size()));
  key.empty() ? answer_bucket(request, response) : answer_object(request, response, key);
}

void S3StandIn::answer_bucket(const httplib::Request& request, httplib::Response& response) {
  if (request.has_param("delete")) {
    pugi::xml_document xml;
    xml.load_string(request.body.c_str());
    for (const pugi::xml_node entry : xml.child("Delete").children("Object"))
      objects_.erase(entry.child_value("Key"));
    response.set_content("<DeleteResult/>", "application/xml");
    return;
  }
  if (lie_) return response.set_content(lie_(request), "application/xml");
  const std::string prefix = request.get_param_value("prefix");
  const bool folded = request.has_param("delimiter");
  const size_t most =
      request.has_param("max-keys") ? std::stoul(request.get_param_value("max-keys")) : 1000;
  const std::string after = request.get_param_value("continuation-token");
  std::set<std::pair<std::string, bool>> entries;  // a name, and whether it is a prefix
  for (const auto& [key, content] : objects_) {
    if (!key.starts_with(prefix)) continue;
    const size_t end = folded ? key.find('/', prefix.size()) : std::string::npos;
    entries.emplace(key.substr(0, end == std::string::npos ? end : end + 1),
                    end != std::string::npos);
  }
  std::string body = "<ListBucketResult>";
  size_t count = 0;
  std::string last;
  for (const auto& [name, is_prefix] : entries) {
    if (!after.empty() && name <= after) continue;
    if (count++ == most) {
      body += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + last +
              "</NextContinuationToken>";
      break;
    }
    last = name;
    body += is_prefix
                ? "<CommonPrefixes><Prefix>" + name + "</Prefix></CommonPrefixes>"
                : "<Contents><Key>" + name + "</Key><Size>" +
                      std::to_string(objects_.at(name).size()) +
                      "</Size><LastModified>2026-01-31T12:00:00.500Z</LastModified></Contents>";
  }
  response.set_content(body + "</ListBucketResult>", "application/xml");
}

void S3StandIn::answer_object(const httplib::Request& request, httplib::Response& response,
                              const std::string& key) {
  if (request.method == "PUT") return put(request, response, key);
  if (request.method == "POST" && request.has_param("uploads")) {
    const std::string id = "upload-" + std::to_string(next_upload_++);
    uploads_[id] = {key, {}, request.get_header_value("x-amz-checksum-algorithm") == "CRC32C"};
    response.set_content("<InitiateMultipartUploadResult><UploadId>" + id +
                             "</UploadId></InitiateMultipartUploadResult>",
                         "application/xml");
    return;
  }
  if (request.method == "POST") return complete(request, response, key);
  if (request.method == "DELETE") {
    response.status = 204;
    request.has_param("uploadId") ? uploads_.erase(request.get_param_value("uploadId"))
                                  : objects_.erase(key);
    return;
  }
  const auto found = objects_.find(key);
  if (found == objects_.end()) return refuse(response, 404, "NoSuchKey");
  const auto known = etags_.find(key);
  const std::string etag = known != etags_.end() && known->second.find('-') != std::string::npos
                               ? known->second
                               : etag_of(found->second);
  if (request.has_header("If-Match") && request.get_header_value("If-Match") != etag)
    return refuse(response, 412, "PreconditionFailed");
  response.set_header("ETag", etag);
  response.set_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT");
  response.set_content(found->second, "application/octet-stream");
}

void S3StandIn::put(const httplib::Request& request, httplib::Response& response,
                    const std::string& key) {
  std::string content = request.body;
  const bool copies = request.has_header("X-Amz-Copy-Source");
  if (copies) {
    if (request.has_param("uploadId") && !part_copy_)
      return refuse(response, 501, "NotImplemented");
    const std::string from = request.get_header_value("X-Amz-Copy-Source");
    const auto found = objects_.find(from.substr(8));
    if (found == objects_.end()) return refuse(response, 404, "NoSuchKey");
    content = found->second;
    const std::string range = request.get_header_value("X-Amz-Copy-Source-Range");
    if (!range.empty()) {
      const size_t begin = std::stoul(range.substr(6));
      content = content.substr(begin, std::stoul(range.substr(range.find('-') + 1)) - begin + 1);
    }
  }
  const std::string etag = etag_of(content);
  if (request.has_param("uploadId")) {
    const auto upload = uploads_.find(request.get_param_value("uploadId"));
    if (upload == uploads_.end()) return refuse(response, 404, "NoSuchUpload");
    if (upload->second.checked != request.has_header("x-amz-checksum-crc32c"))
      return refuse(response, 400, "InvalidRequest");
    upload->second.parts[std::stoi(request.get_param_value("partNumber"))] = std::move(content);
  } else {
    objects_[key] = std::move(content);
    etags_.erase(key);
  }
  response.set_header("ETag", etag);
  if (copies) {
    const std::string name = request.has_param("uploadId") ? "CopyPartResult" : "CopyObjectResult";
    response.set_content("<" + name + "><ETag>" + etag + "</ETag></" + name + ">",
                         "application/xml");
  }
}

void S3StandIn::complete(const httplib::Request& request, httplib::Response& response,
                         const std::string& key) {
  const auto upload = uploads_.find(request.get_param_value("uploadId"));
  if (upload == uploads_.end()) return refuse(response, 404, "NoSuchUpload");
  pugi::xml_document xml;
  xml.load_string(request.body.c_str());
  std::string content;
  std::string digests;  // of the parts
  size_t smallest = SIZE_MAX;
  int count = 0;
  for (const pugi::xml_node entry : xml.child("CompleteMultipartUpload").children("Part")) {
    const auto part = upload->second.parts.find(entry.child("PartNumber").text().as_int());
    if (part == upload->second.parts.end() || etag_of(part->second) != entry.child_value("ETag"))
      return refuse(response, 400, "InvalidPart");
    if (upload->second.checked && checksum_of(part->second) != entry.child_value("ChecksumCRC32C"))
      return refuse(response, 400, "InvalidRequest");
    if (smallest < least_part_) return refuse(response, 400, "EntityTooSmall");
    smallest = std::min(smallest, part->second.size());
    content += part->second;
    digests += digest_bytes(EVP_md5(), part->second);
    ++count;
  }
  etags_[key] = "\"" + digest(EVP_md5(), digests) + "-" + std::to_string(count) + "\"";
  objects_[key] = std::move(content);
  uploads_.erase(upload);
  response.set_content("<CompleteMultipartUploadResult><ETag>" + etags_[key] +
                           "</ETag></CompleteMultipartUploadResult>",
                       "application/xml");
}

}  // namespace muster::inline v0_1
