#include "muster/stores/gcs_store.h"

#include <utility>

#include "muster/stores/internal/gcs_service.h"
#include "muster/stores/internal/object_file_system.h"

namespace muster::inline v0_1::stores {

GcsOptions GcsOptions::from(const Environment& environment) {
  return {.endpoint = environment.get_or("STORAGE_EMULATOR_HOST", ""),
          .quota_project = environment.get_or("GOOGLE_CLOUD_QUOTA_PROJECT", ""),
          .user_project = environment.get_or("GS_USER_PROJECT", ""),
          .environment = environment,
          .limits = StoreOptions::from(environment)};
}

std::unique_ptr<FileSystem> make_gcs_store(GcsOptions options) {
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!options.endpoint.empty() && options.endpoint.find("://") == std::string::npos)
    options.endpoint = "http://" + options.endpoint;
  // The service takes only parts of whole units, except for the last.
  constexpr size_t kUnit = size_t{256} << 10;
  options.limits.part_bytes = (options.limits.part_bytes + kUnit - 1) / kUnit * kUnit;
  const StoreOptions limits = options.limits;
  return std::make_unique<internal::ObjectFileSystem>(
      std::make_unique<internal::GcsService>(std::move(options)), limits);
}

}  // namespace muster::inline v0_1::stores
