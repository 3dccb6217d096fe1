#include "muster/stores/s3_store.h"

#include <utility>

#include "muster/base/strings.h"
#include "muster/stores/internal/aws_credentials.h"
#include "muster/stores/internal/aws_profile.h"
#include "muster/stores/internal/object_file_system.h"
#include "muster/stores/internal/s3_service.h"

namespace muster::inline v0_1::stores {

S3Options S3Options::from(const Environment& environment) {
  S3Options options;
  options.environment = environment;
  options.limits = StoreOptions::from(environment);
  if (const std::string file = environment.get_or("AWS_CA_BUNDLE", ""); !file.empty())
    options.limits.ca_file = file;
  options.endpoint = environment.get_or("AWS_ENDPOINT_URL_S3", "");
  if (options.endpoint.empty()) options.endpoint = environment.get_or("AWS_ENDPOINT_URL", "");
  options.region = environment.get_or("AWS_REGION", "");
  if (options.region.empty()) options.region = environment.get_or("AWS_DEFAULT_REGION", "");
  std::string checksums = environment.get_or("AWS_REQUEST_CHECKSUM_CALCULATION", "");
  // A profile that is not there is an error of the request that needs it.
  if (const auto profile = internal::read_aws_profile(environment); profile.ok()) {
    const auto setting = [&](const std::string& name) {
      const auto found = profile.value().settings.find(name);
      return found == profile.value().settings.end() ? "" : found->second;
    };
    if (options.region.empty()) options.region = setting("region");
    if (options.endpoint.empty()) options.endpoint = setting("endpoint_url");
    if (checksums.empty()) checksums = setting("request_checksum_calculation");
    if (environment.get_or("AWS_CA_BUNDLE", "").empty() && !setting("ca_bundle").empty())
      options.limits.ca_file = setting("ca_bundle");
  }
  options.checksums = to_lower(checksums) != "when_required";
  options.unsigned_http = environment.get_or("MUSTER_S3_UNSIGNED_HTTP", "") == "1";
  if (const std::string payer = environment.get_or("AWS_REQUEST_PAYER", ""); !payer.empty()) {
    if (to_lower(payer) != "requester") {
      throw invalid_argument("AWS_REQUEST_PAYER is '" + payer + "'",
                             "the service knows one word: requester; unset it where the bucket's "
                             "owner pays");
    }
    options.requester_pays = true;
  }
  return options;
}

std::unique_ptr<FileSystem> make_s3_store(S3Options options) {
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!options.endpoint.empty()) {
    if (const auto wrong = internal::check_endpoint(options.endpoint, "S3 (AWS_ENDPOINT_URL)"))
      throw *wrong;
  }
  const StoreOptions limits = options.limits;
  return std::make_unique<internal::ObjectFileSystem>(
      std::make_unique<internal::S3Service>(std::move(options)), limits);
}

}  // namespace muster::inline v0_1::stores
