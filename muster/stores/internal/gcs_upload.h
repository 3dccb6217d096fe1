// A resumable upload to Google Cloud Storage. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "muster/stores/internal/gcs_service.h"

namespace muster::inline v0_1::stores::internal {

class GcsService::Upload : public PartUpload {
 public:
  static Result<std::unique_ptr<Upload>> begin(GcsService& service, const ObjectName& object);
  Upload(GcsService& service, ObjectName object, std::string session);
  ~Upload() override;

  size_t part_bytes(int number) const override;
  bool parallel() const override { return false; }
  Status send(int number, Bytes part, bool last, Cancellation& cancellation) override;
  Status finish() override;
  Status abort() override;

 private:
  GcsService& service_;
  const ObjectName object_;
  const std::string session_;  // a URL
  uint64_t sent_ = 0;          // bytes that the service has
  uint32_t crc_ = 0;           // of all parts
  std::string answer_;         // the service's answer about the finished object
  bool open_ = true;
};

}  // namespace muster::inline v0_1::stores::internal
