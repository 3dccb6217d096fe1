#include "muster/stores/internal/s3_upload.h"

#include <pugixml.hpp>
#include <utility>

#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/multipart.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// The ETag of the object that these parts make: the MD5 of their MD5s, and how many there are.
// Empty if the ETags of the parts are not MD5s, as of objects under keys of the customer's.
template <typename Part>
std::string etag_of(const std::map<int, Part>& parts) {
  Md5 digest;
  for (const auto& [number, part] : parts) {
    const std::optional<std::string> md5 = md5_of_etag(part.etag);
    if (!md5) return "";
    digest.add(bytes_of(*md5));
  }
  return "\"" + hex(digest.finish()) + "-" + std::to_string(parts.size()) + "\"";
}

}  // namespace

Result<std::unique_ptr<S3Service::Upload>> S3Service::Upload::begin(S3Service& service,
                                                                    const ObjectName& object,
                                                                    bool checksums) {
  Result<HttpResponse> answer = service.send({.what = "begin to write '" + object.uri() + "'",
                                              .method = "POST",
                                              .object = object,
                                              .query = {{"uploads", ""}},
                                              .begins_parts = checksums});
  if (!answer.ok()) return answer.error();
  Result<std::string> id = upload_id_of(answer.value().body, object, "AWS_ENDPOINT_URL");
  if (!id.ok()) return id.error();
  return std::make_unique<Upload>(service, object, std::move(id).value(), checksums);
}

S3Service::Upload::Upload(S3Service& service, ObjectName object, std::string id, bool checksums)
    : service_(service), object_(std::move(object)), id_(std::move(id)), checksums_(checksums) {}

S3Service::Upload::~Upload() { (void)abort(); }

size_t S3Service::Upload::part_bytes(int number) const {
  return bytes_of_part(service_.options_.limits.part_bytes, number);
}

Status S3Service::Upload::send(int number, Bytes part, bool last, Cancellation& cancellation) {
  // An object has one part at least.
  if (part.empty() && last && number > 1) return {};
  Result<SentPart> sent = service_.send_part(object_, id_, number, part, checksums_, &cancellation);
  if (!sent.ok()) return sent.error();
  add_part(number, std::move(sent).value());
  return {};
}

void S3Service::Upload::add_part(int number, SentPart part) {
  std::lock_guard lock(mutex_);
  parts_[number] = std::move(part);
}

Status S3Service::Upload::finish() {
  std::string body = "<CompleteMultipartUpload>";
  for (const auto& [number, part] : parts_) {
    body += "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><ETag>" + part.etag +
            "</ETag>";
    // The service requires all of them again.
    if (!part.checksum.empty()) body += "<ChecksumCRC32C>" + part.checksum + "</ChecksumCRC32C>";
    body += "</Part>";
  }
  body += "</CompleteMultipartUpload>";
  Result<HttpResponse> answer = service_.send({.what = "finish writing '" + object_.uri() + "'",
                                               .method = "POST",
                                               .object = object_,
                                               .query = {{"uploadId", id_}},
                                               .body = bytes_of(body),
                                               .slow = true,
                                               .answers_late = true});
  if (!answer.ok()) {
    // A try whose answer was lost may have finished it: then a second one finds no such upload.
    if (answer.error().kind() != ErrorKind::kNotFound) return answer.error();
    const Result<ObjectInfo> there = service_.look(object_);
    const std::string made = etag_of(parts_);
    if (!there.ok() || made.empty() || there.value().version != made) return answer.error();
    etag_ = made;
  } else {
    pugi::xml_document xml;
    xml.load_string(answer.value().body.c_str());
    etag_ = xml.child("CompleteMultipartUploadResult").child_value("ETag");
  }
  open_ = false;
  return {};
}

Status S3Service::Upload::abort() {
  if (!std::exchange(open_, false)) return {};
  Result<HttpResponse> answer = service_.send({.what = "give up writing '" + object_.uri() + "'",
                                               .method = "DELETE",
                                               .object = object_,
                                               .query = {{"uploadId", id_}}});
  if (answer.ok() || answer.error().kind() == ErrorKind::kNotFound) return {};
  return answer.error();
}

}  // namespace muster::inline v0_1::stores::internal
