#include "muster/stores/internal/s3_service.h"

#include <algorithm>
#include <cstring>
#include <pugixml.hpp>
#include <span>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/http_responses.h"
#include "muster/stores/internal/s3_upload.h"

namespace muster::inline v0_1::stores::internal {
namespace {

ObjectInfo info_of(const HttpResponse& response) {
  ObjectInfo info;
  info.version = response.header("etag");
  info.size = parse_size(response.header("content-length")).value_or(0);
  info.modified_seconds = parse_http_date(response.header("last-modified"));
  // The ETag is the MD5 of the bytes sent in one request, unless the object is encrypted with keys
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

Result<ObjectInfo> S3Service::look(const ObjectName& object) {
  const Call call{.what = "look at '" + object.uri() + "'", .method = "HEAD", .object = object};
  Result<HttpResponse> answer = send(call);
  if (!answer.ok()) return answer.error();
  if (answer.value().header("content-length").empty()) {
    return corrupt("cannot " + call.what + ": the server does not say how many bytes it has",
                   "the server, or a proxy in front of it, is at fault: it leaves out "
                   "Content-Length");
  }
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
  // An object that the service copies keeps its checksums.
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
  if (copies_parts_) {
    Result<ObjectInfo> extended = copy_in_parts(object, base, object, tail);
    if (extended.ok() || copies_parts_) return extended;
  }
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
                 "try again; if the error remains, a proxy may cause it");
  }
  if (!result) {
    return invalid_argument("cannot " + call.what + ": the answer is not a list of S3",
                            "check AWS_ENDPOINT_URL: another service seems to answer there");
  }
  ListPage page;
  for (const pugi::xml_node entry : result.children("Contents")) {
    page.keys.emplace_back(entry.child_value("Key"));
    const auto size = parse_size(trim(entry.child_value("Size")));
    if (!size) return no_size(page.keys.back(), entry.child_value("Size"), call.what);
    page.infos.push_back(
        {.size = *size,
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
            .body = bytes_of(body.text),
            .answers_late = true});
  if (!answer.ok()) return answer.error();
  pugi::xml_document said;
  said.load_buffer(answer.value().body.data(), answer.value().body.size());
  const pugi::xml_node failed = said.child("DeleteResult").child("Error");
  if (!failed) return {};
  HttpResponse said_of_one = answer.value();
  said_of_one.status = status_of_code(failed.child_value("Code"));
  return response_error(said_of_one,
                        "remove '" + whole.with_key(failed.child_value("Key")).uri() + "'",
                        failed.child_value("Code"), failed.child_value("Message"), "");
}

}  // namespace muster::inline v0_1::stores::internal
