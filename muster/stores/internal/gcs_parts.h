// An upload to Google Cloud Storage whose parts are sent in parallel, by its XML API. Thread
// safety: send() from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "muster/stores/internal/gcs_service.h"

namespace muster::inline v0_1::stores::internal {

class GcsService::PartsUpload : public PartUpload {
 public:
  // An error where the service has no such uploads, as some emulators, or permits none.
  static Result<std::unique_ptr<PartsUpload>> begin(GcsService& service, const ObjectName& object);
  PartsUpload(GcsService& service, ObjectName object, std::string id);
  ~PartsUpload() override;

  size_t part_bytes(int number) const override;
  bool parallel() const override { return true; }
  Status send(int number, Bytes part, bool last, Cancellation& cancellation) override;
  Status finish() override;
  Status abort() override;

 private:
  struct Part {
    std::string etag{};
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
  };
  std::string url(const Query& query) const;

  GcsService& service_;
  const ObjectName object_;
  const std::string id_;
  std::mutex mutex_;
  std::map<int, Part> parts_;
  bool open_ = true;
};

}  // namespace muster::inline v0_1::stores::internal
