// Google Cloud Storage by its JSON API. Thread safety: as ObjectService.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "muster/stores/gcs_store.h"
#include "muster/stores/internal/google_credentials.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/object_service.h"

namespace muster::inline v0_1::stores::internal {

class GcsService : public ObjectService {
 public:
  explicit GcsService(GcsOptions options);

  std::string scheme() const override { return "gs"; }
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
  class PartsUpload;
  struct Call {
    std::string what{};  // "read 'gs://a/b'"
    std::string method = "GET";
    ObjectName object{};
    std::string url{};
    std::vector<std::string> headers{};
    Bytes body{};
    bool slow = false;
  };

  Result<HttpRequest> build(const Call& call);
  RetryDecision judge(const HttpResponse& response);
  Result<HttpResponse> send(const Call& call, Cancellation* cancellation = nullptr);
  Error error_of(const Call& call, const HttpResponse& response);
  std::string endpoint() const;
  // ".../b/BUCKET" and ".../b/BUCKET/o/OBJECT" of the JSON API.
  std::string bucket_url(const ObjectName& object, const std::string& api = "/storage/v1") const;
  std::string object_url(const ObjectName& object) const;
  // ".../BUCKET/OBJECT" of the XML API.
  std::string xml_url(const ObjectName& object) const;
  Result<ObjectInfo> read_info(const std::string& json, const ObjectName& object);

  const GcsOptions options_;
  HttpClient client_;
  GoogleCredentials credentials_;
  std::mutex mutex_;
  // Buckets to which the service takes no uploads by parts: some emulators have none, and a right
  // to write may be none to write parts.
  std::set<std::string> without_parts_;
};

}  // namespace muster::inline v0_1::stores::internal
