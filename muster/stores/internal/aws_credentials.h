// The credentials of Amazon's services, found where its own tools find them. Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/stores/internal/aws_signature.h"
#include "muster/stores/internal/http_client.h"

namespace muster::inline v0_1::stores::internal {

struct AwsCredentials {
  SigningKey key;
  std::string source;                  // their source, in words
  std::optional<double> ends_seconds;  // Unix time
};

// Returns the fault of the address of a service, called `what`; nothing if it is valid: a scheme
// and a host. Amazon's tools refuse addresses without a scheme too: https would be a guess, and a
// wrong one costs seconds and a misleading error.
std::optional<Error> check_endpoint(const std::string& endpoint, const std::string& what);

// Looks, in this order, at: AWS_ACCESS_KEY_ID; AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, by
// STS; the profile; the container's address (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI);
// the metadata service of an EC2 instance, unless AWS_EC2_METADATA_DISABLED is true.
class AwsCredentialChain {
 public:
  AwsCredentialChain(Environment environment, std::string region, const StoreOptions& limits);

  // Returns credentials that are good for some minutes; nothing if none are found, and requests go
  // unsigned. An error if a place was named that has none; Unavailable if there were some, and they
  // cannot be renewed.
  Result<std::optional<AwsCredentials>> get();
  // Looks for others than `refused`, which the service no longer takes although they have not
  // ended; returns whether get() gives others now.
  bool renew(const SigningKey& refused);

 private:
  Result<std::optional<AwsCredentials>> find();
  Result<std::optional<AwsCredentials>> from_web_identity();
  Result<std::optional<AwsCredentials>> from_profile();
  Result<std::optional<AwsCredentials>> from_container();
  Result<std::optional<AwsCredentials>> from_instance();
  Result<std::string> ask(const HttpRequest& request, const std::string& what);

  const Environment environment_;
  const std::string region_;
  HttpClient client_;
  Clock& clock_;
  std::mutex mutex_;
  bool looked_ = false;
  std::optional<AwsCredentials> found_;
  double ask_again_seconds_ = 0;  // Unix time; before, credentials that are still good are not
                                  // asked for again
};

}  // namespace muster::inline v0_1::stores::internal
