// Access tokens for Google's services, found where its own libraries find them. Thread-safe.
#pragma once

#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/stores/internal/http_client.h"

namespace muster::inline v0_1::stores::internal {

struct GoogleToken {
  std::string token{};
  std::string source{};         // their owner, in words
  std::string quota_project{};  // the project whose quota counts; may be empty
  double ends_seconds = 0;      // Unix time
};

// Reading and writing buckets, and everything that the account may do.
inline constexpr const char* kStorageScope =
    "https://www.googleapis.com/auth/devstorage.read_write";
inline constexpr const char* kPlatformScope = "https://www.googleapis.com/auth/cloud-platform";

// Looks, in this order, at: the file of GOOGLE_APPLICATION_CREDENTIALS; the one that `gcloud auth
// application-default login` writes; the metadata service of Google's machines (GCE_METADATA_HOST).
class GoogleCredentials {
 public:
  // `scope` limits a token of a service account's file; other tokens have the scope that they were
  // made with.
  GoogleCredentials(Environment environment, const StoreOptions& limits,
                    std::string scope = kStorageScope);

  // Returns a token that is good for some minutes; nothing if there is no source, and requests go
  // without. Unavailable if there was one, and it cannot be renewed.
  Result<std::optional<GoogleToken>> get();
  // Says that the service no longer takes the result of get().
  void forget();

 private:
  Result<std::optional<GoogleToken>> find();
  Result<std::optional<GoogleToken>> from_file(const std::string& path);
  Result<std::optional<GoogleToken>> from_metadata();
  Result<GoogleToken> exchange(const std::string& url, const std::string& form,
                               const std::string& source);
  Result<GoogleToken> read_token(const std::string& body, const std::string& source);

  const Environment environment_;
  const std::string scope_;
  HttpClient client_;
  Clock& clock_;
  std::mutex mutex_;
  bool looked_ = false;
  std::optional<GoogleToken> found_;
  double ask_again_seconds_ = 0;  // Unix time; before, a token that is still good is not asked for
                                  // again
};

// A JSON Web Token (RFC 7519) with these claims, signed with RS256 by the private key in PEM.
// Returns InvalidArgument when `pem` is no such key.
Result<std::string> signed_token(const nlohmann::json& claims, const std::string& key_id,
                                 const std::string& pem);

}  // namespace muster::inline v0_1::stores::internal
