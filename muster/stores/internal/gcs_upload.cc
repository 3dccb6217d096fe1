#include "muster/stores/internal/gcs_upload.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores::internal {

Result<std::unique_ptr<GcsService::Upload>> GcsService::Upload::begin(GcsService& service,
                                                                      const ObjectName& object) {
  const Query query{{"uploadType", "resumable"}, {"name", object.key}};
  Result<HttpResponse> answer =
      service.send({.what = "begin to write '" + object.uri() + "'",
                    .method = "POST",
                    .object = object,
                    .url = service.bucket_url(object, "/upload/storage/v1") + "/o?" + query.text(),
                    .headers = {"X-Upload-Content-Type: application/octet-stream"}});
  if (!answer.ok()) return answer.error();
  std::string session = answer.value().header("location");
  if (session.empty()) {
    return invalid_argument(
        "cannot begin to write '" + object.uri() + "': the answer names no upload",
        "check STORAGE_EMULATOR_HOST: another service seems to answer there");
  }
  return std::make_unique<Upload>(service, object, std::move(session));
}

GcsService::Upload::Upload(GcsService& service, ObjectName object, std::string session)
    : service_(service), object_(std::move(object)), session_(std::move(session)) {}

GcsService::Upload::~Upload() { (void)abort(); }

size_t GcsService::Upload::part_bytes(int) const {
  // Parts are sent one after another, so each should be worth its round trip.
  return 4 * service_.options_.limits.part_bytes;
}

Status GcsService::Upload::send(int, Bytes part, bool last, Cancellation& cancellation) {
  const uint64_t begin = sent_;
  const uint64_t end = begin + part.size();
  crc_ = extend_crc32c(crc_, part);
  const std::string total = last ? std::to_string(end) : "*";
  Call call{.what = "write '" + object_.uri() + "' from byte " + std::to_string(begin),
            .method = "PUT",
            .object = object_,
            .url = session_};
  bool done = false;
  // After a failure we do not know how much arrived, and ask.
  bool asking = false;
  // Questions may be answered where no byte gets through.
  Clock& clock = *service_.options_.limits.clock;
  TimePoint moved = clock.now();
  while (!done) {
    const auto make = [&]() -> Result<HttpRequest> {
      call.headers.clear();
      call.body = {};
      if (asking || (part.empty() && last)) {
        call.headers.push_back("Content-Range: bytes */" + total);
      } else {
        call.body = part.subspan(sent_ - begin);
        call.headers.push_back("Content-Range: bytes " + std::to_string(sent_) + "-" +
                               std::to_string(end - 1) + "/" + total);
      }
      if (last) call.headers.push_back("X-Goog-Hash: crc32c=" + crc32c_text(crc_));
      return service_.build(call);
    };
    const auto judge = [&](const HttpResponse& response) {
      if (response.transport == Transport::kAnswered &&
          (response.status == 308 || response.status / 100 == 2)) {
        return RetryDecision::kFinal;
      }
      const RetryDecision verdict = service_.judge(response);
      asking = true;
      return verdict;
    };
    Result<HttpResponse> answer = perform_with_retries(
        service_.client_,
        {.what = call.what,
         .make = make,
         .amend = take_status_of_body,
         .judge = judge,
         .error_of =
             [&](const HttpResponse& response) { return service_.error_of(call, response); },
         .cancellation = &cancellation});
    if (!answer.ok()) return answer.error().with_context("cannot " + call.what);
    const HttpResponse& response = answer.value();
    if (response.ok()) {
      answer_ = response.body;
      sent_ = end;
      open_ = false;
      return last ? Status()
                  : Status(internal_error("the service ended the upload of '" + object_.uri() +
                                          "' at byte " + std::to_string(end)));
    }
    if (response.transport != Transport::kAnswered || response.status != 308)
      return service_.error_of(call, response);
    // "bytes=0-524287", or nothing while there is nothing.
    const std::string range = response.header("range");
    const auto has = parse_int(range.substr(std::min(range.size(), range.find('-') + 1)));
    const uint64_t there = range.empty() || !has ? 0 : static_cast<uint64_t>(*has) + 1;
    if (there < sent_ || there > end || (!asking && there == sent_ && !part.empty())) {
      return Error(ErrorKind::kUnavailable,
                   "the service has " + std::to_string(there) + " bytes of '" + object_.uri() +
                       "', where it should have some between " + std::to_string(sent_) + " and " +
                       std::to_string(end),
                   "write it again");
    }
    if (there > sent_) moved = clock.now();
    if (clock.now() - moved > service_.options_.limits.retry_timeout) {
      return Error(ErrorKind::kUnavailable,
                   "cannot " + call.what + ": the service answers, but has got no byte for " +
                       human_duration(to_seconds(clock.now() - moved)),
                   "a proxy may hold them back: see whether it lets large requests through");
    }
    sent_ = there;
    asking = false;
    done = sent_ == end && !last;
    if (last && sent_ == end) part = {};
  }
  return {};
}

Status GcsService::Upload::finish() {
  Result<ObjectInfo> made = service_.read_info(answer_, object_);
  if (!made.ok()) return made.error();
  if (made.value().size == sent_ && made.value().crc32c.value_or(crc_) == crc_) return {};
  return corrupt("'" + object_.uri() + "' was written, but the service has " +
                     std::to_string(made.value().size) + " bytes with another checksum than the " +
                     std::to_string(sent_) + " that were sent",
                 "write it again");
}

Status GcsService::Upload::abort() {
  if (!std::exchange(open_, false)) return {};
  // The service answers 499: it takes the end of an upload for the client's going away.
  const Call call{.what = "give up writing '" + object_.uri() + "'",
                  .method = "DELETE",
                  .object = object_,
                  .url = session_};
  Result<HttpRequest> request = service_.build(call);
  if (!request.ok()) return request.error();
  const HttpResponse answer = service_.client_.perform(request.value());
  if (answer.ok() || (answer.transport == Transport::kAnswered &&
                      (answer.status == 499 || answer.status == 404 || answer.status == 410))) {
    return {};
  }
  return service_.error_of(call, answer);
}

}  // namespace muster::inline v0_1::stores::internal
