#include "muster/stores/internal/gcs_parts.h"

#include <optional>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/http_responses.h"
#include "muster/stores/internal/multipart.h"

namespace muster::inline v0_1::stores::internal {

Result<std::unique_ptr<GcsService::PartsUpload>> GcsService::PartsUpload::begin(
    GcsService& service, const ObjectName& object) {
  const Query query{{"uploads", ""}};
  Result<HttpResponse> answer = service.send({.what = "begin to write '" + object.uri() + "'",
                                              .method = "POST",
                                              .object = object,
                                              .url = service.xml_url(object) + "?" + query.text()});
  if (!answer.ok()) return answer.error();
  Result<std::string> id = upload_id_of(answer.value().body, object, "STORAGE_EMULATOR_HOST");
  if (!id.ok()) return id.error();
  return std::make_unique<PartsUpload>(service, object, std::move(id).value());
}

GcsService::PartsUpload::PartsUpload(GcsService& service, ObjectName object, std::string id)
    : service_(service), object_(std::move(object)), id_(std::move(id)) {}

GcsService::PartsUpload::~PartsUpload() { (void)abort(); }

std::string GcsService::PartsUpload::url(const Query& query) const {
  return service_.xml_url(object_) + "?" + query.text();
}

size_t GcsService::PartsUpload::part_bytes(int number) const {
  return bytes_of_part(service_.options_.limits.part_bytes, number);
}

Status GcsService::PartsUpload::send(int number, Bytes part, bool last,
                                     Cancellation& cancellation) {
  if (part.empty() && last && number > 1) return {};
  const uint32_t crc = crc32c(part);
  Result<HttpResponse> answer =
      service_.send({.what = "write part " + std::to_string(number) + " of '" + object_.uri() + "'",
                     .method = "PUT",
                     .object = object_,
                     .url = url({{"partNumber", std::to_string(number)}, {"uploadId", id_}}),
                     .headers = {"X-Goog-Hash: crc32c=" + crc32c_text(crc)},
                     .body = part},
                    &cancellation);
  if (!answer.ok()) return answer.error();
  std::lock_guard lock(mutex_);
  parts_[number] = {answer.value().header("etag"), part.size(), crc};
  return {};
}

Status GcsService::PartsUpload::finish() {
  std::string body = "<CompleteMultipartUpload>";
  uint64_t bytes = 0;
  uint32_t crc = 0;
  for (const auto& [number, part] : parts_) {
    body += "<Part><PartNumber>" + std::to_string(number) + "</PartNumber><ETag>" + part.etag +
            "</ETag></Part>";
    crc = joined_crc32c(crc, part.crc32c, part.bytes);
    bytes += part.bytes;
  }
  body += "</CompleteMultipartUpload>";
  Result<HttpResponse> answer = service_.send({.what = "finish writing '" + object_.uri() + "'",
                                               .method = "POST",
                                               .object = object_,
                                               .url = url({{"uploadId", id_}}),
                                               .body = bytes_of(body),
                                               .slow = true});
  // A try whose answer was lost may have finished it: then a second one finds no such upload.
  if (!answer.ok() && answer.error().kind() != ErrorKind::kNotFound) return answer.error();
  const Result<ObjectInfo> made = service_.look(object_);
  // An identity that may write may lack permission to look. Each part was sent with its checksum.
  if (answer.ok() && !made.ok() && made.error().kind() == ErrorKind::kInvalidArgument) {
    open_ = false;
    return {};
  }
  if (!made.ok()) return answer.ok() ? made.error() : answer.error();
  const bool same = made.value().size == bytes && made.value().crc32c.value_or(crc) == crc;
  if (!answer.ok() && (!same || !made.value().crc32c)) return answer.error();
  open_ = false;
  if (same) return {};
  return corrupt("'" + object_.uri() + "' was written, but the service has " +
                     std::to_string(made.value().size) + " bytes with another checksum than the " +
                     std::to_string(bytes) + " that were sent",
                 "write it again; two programs may have written it at once");
}

Status GcsService::PartsUpload::abort() {
  if (!std::exchange(open_, false)) return {};
  Result<HttpResponse> answer = service_.send({.what = "give up writing '" + object_.uri() + "'",
                                               .method = "DELETE",
                                               .object = object_,
                                               .url = url({{"uploadId", id_}})});
  if (answer.ok() || answer.error().kind() == ErrorKind::kNotFound) return {};
  return answer.error();
}

}  // namespace muster::inline v0_1::stores::internal
