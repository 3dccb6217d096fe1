// A multipart upload to S3. Thread safety: send() from several threads.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "muster/stores/internal/s3_service.h"

namespace muster::inline v0_1::stores::internal {

class S3Service::Upload : public PartUpload {
 public:
  // With `checksums` all parts are sent with one, if the service knows them.
  static Result<std::unique_ptr<Upload>> begin(S3Service& service, const ObjectName& object,
                                               bool checksums);
  Upload(S3Service& service, ObjectName object, std::string id, bool checksums);
  ~Upload() override;

  size_t part_bytes(int number) const override;
  bool parallel() const override { return true; }
  Status send(int number, Bytes part, bool last, Cancellation& cancellation) override;
  Status finish() override;
  Status abort() override;

  const std::string& id() const { return id_; }
  // Notes a part that was made otherwise.
  void add_part(int number, SentPart part);
  // The ETag of the object, after finish().
  const std::string& etag() const { return etag_; }

 private:
  S3Service& service_;
  const ObjectName object_;
  const std::string id_;
  const bool checksums_;
  std::mutex mutex_;
  std::map<int, SentPart> parts_;
  std::string etag_;
  bool open_ = true;
};

}  // namespace muster::inline v0_1::stores::internal
