// Amazon's S3 by its REST API. Thread safety: as ObjectService.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/stores/internal/aws_credentials.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/object_service.h"
#include "muster/stores/s3_store.h"

namespace muster::inline v0_1::stores::internal {

// The 16 bytes of an ETag that is an MD5.
std::optional<std::string> md5_of_etag(const std::string& etag);

class S3Service : public ObjectService {
 public:
  explicit S3Service(S3Options options);

  std::string scheme() const override { return "s3"; }
  Result<ObjectInfo> look(const ObjectName& object) override;
  Result<RangeRead> read(const ObjectName& object, const std::string& version, uint64_t offset,
                         MutableBytes out, Cancellation* cancellation) override;
  Result<ObjectInfo> put(const ObjectName& object, Bytes bytes) override;
  Result<std::unique_ptr<PartUpload>> begin_upload(const ObjectName& object) override;
  Result<ObjectInfo> extend(const ObjectName& object, const ObjectInfo& base, Bytes tail) override;
  Result<ListPage> list(const ObjectName& bucket, const std::string& prefix, bool flat,
                        const std::string& next, int most) override;
  Status remove(const ObjectName& object) override;
  Status remove_all(const ObjectName& bucket, const std::vector<std::string>& keys) override;
  Status copy(const ObjectName& from, const ObjectInfo& info, const ObjectName& to) override;

 private:
  class Upload;
  struct Call {
    std::string what;  // "read 's3://a/b'"
    std::string method = "GET";
    ObjectName object;
    Query query;
    std::map<std::string, std::string> headers;  // names in small letters
    Bytes body;
    std::string body_hash;      // empty: computed
    bool slow = false;          // the service works on it for long
    bool answers_late = false;  // 200 comes before the work is done: an error may be in the body
  };

  // Builds and signs one try.
  Result<HttpRequest> build(const Call& call);
  // Learns from an answer what the next try needs.
  Verdict judge(const Call& call, const HttpResponse& response);
  Result<HttpResponse> send(const Call& call, Cancellation* cancellation = nullptr);
  Error error_of(const Call& call, const HttpResponse& response);
  std::string region_of(const std::string& bucket);
  // Sends a part; returns its ETag.
  Result<std::string> send_part(const ObjectName& object, const std::string& upload, int number,
                                Bytes part, Cancellation* cancellation);
  // Makes a part of the bytes [begin, end) of `from`.
  Result<std::string> copy_part(const ObjectName& object, const std::string& upload, int number,
                                const ObjectName& from, const ObjectInfo& info, uint64_t begin,
                                uint64_t end);
  // Copies `from` by parts, with `tail` behind it.
  Result<ObjectInfo> copy_in_parts(const ObjectName& from, const ObjectInfo& info,
                                   const ObjectName& to, Bytes tail);

  Result<ObjectInfo> send_again(const ObjectName& object, const ObjectInfo& base, Bytes tail);

  const S3Options options_;
  HttpClient client_;
  AwsCredentialChain credentials_;
  std::mutex mutex_;
  std::map<std::string, std::string> regions_;  // of buckets, as the service told
  double clock_offset_ = 0;                     // the service's time minus ours, in seconds
};

}  // namespace muster::inline v0_1::stores::internal
