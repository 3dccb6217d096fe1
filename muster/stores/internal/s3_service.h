// Amazon's S3 by its REST API. Thread safety: as ObjectService.
#pragma once

#include <atomic>
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
    std::string what{};  // "read 's3://a/b'"
    std::string method = "GET";
    ObjectName object{};
    Query query{};
    std::map<std::string, std::string> headers{};  // names in small letters
    Bytes body{};
    // The body is an object or a part of one: it may be sent with a checksum in place of a
    // signature.
    bool is_content = false;
    bool begins_parts = false;  // says that parts will come with checksums
    bool slow = false;          // the service works on it for long
    bool answers_late = false;  // 200 comes before the work is done: an error may be in the body

    // The result of the tries.
    std::string body_hash{};               // computed by the first that needs it
    std::string checksum{};                // of the body, that went with the last; empty: none
    bool checked = false;                  // whether the last spoke of checksums at all
    bool unchecked = false;                // whether a request with a checksum was refused for it
    std::optional<SigningKey> used_key{};  // that the last was signed with
  };

  // Builds and signs one try.
  Result<HttpRequest> build(Call& call);
  // Derives the next try from an answer.
  RetryDecision judge(Call& call, const HttpResponse& response);
  Result<HttpResponse> send(Call call, Cancellation* cancellation = nullptr);
  // Does the same, and leaves the result of the tries in `call`.
  Result<HttpResponse> send_call(Call& call, Cancellation* cancellation);
  Error error_of(const Call& call, const HttpResponse& response);
  std::string region_of(const std::string& bucket);
  // Where requests for this bucket go, without its name: "https://s3.eu-west-1.amazonaws.com".
  std::string endpoint_of(const std::string& bucket);
  // Whether contents are sent with a checksum.
  bool uses_checksums() const;

  // A part of an upload that the service has.
  struct SentPart {
    std::string etag;
    std::string checksum;  // empty: it went without
  };
  Result<SentPart> send_part(const ObjectName& object, const std::string& upload, int number,
                             Bytes part, bool with_checksum, Cancellation* cancellation);
  // Makes a part of the bytes [begin, end) of `from`.
  Result<std::string> copy_part(const ObjectName& object, const std::string& upload, int number,
                                const ObjectName& from, const ObjectInfo& info, uint64_t begin,
                                uint64_t end);
  // Copies `from` by parts, with `tail` after it.
  Result<ObjectInfo> copy_in_parts(const ObjectName& from, const ObjectInfo& info,
                                   const ObjectName& to, Bytes tail);

  Result<ObjectInfo> send_again(const ObjectName& object, const ObjectInfo& base, Bytes tail);

  const S3Options options_;
  HttpClient client_;
  AwsCredentialChain credentials_;
  // Until the service refuses something for them, and takes it without.
  std::atomic<bool> knows_checksums_;
  std::atomic<bool> copies_parts_{true};  // until the service answers that it copies none
  std::mutex mutex_;
  std::map<std::string, std::string> regions_;  // of buckets, as the service reported them
  double clock_offset_ = 0;                     // the service's time minus ours, in seconds
};

}  // namespace muster::inline v0_1::stores::internal
