#include "muster/stores/stores.h"

#include <atomic>

#include "muster/base/environment.h"
#include "muster/files/file_systems.h"
#include "muster/stores/gcs_store.h"
#include "muster/stores/http_store.h"
#include "muster/stores/s3_store.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_stores_linked;
const int muster_stores_linked = 1;
}

namespace muster::inline v0_1::stores {
namespace {

std::atomic<Seconds> retry_timeout{StoreOptions().retry_timeout};

// The options of a store of this process.
template <typename Options>
Options options_here() {
  const Environment environment = Environment::process();
  Options options = Options::from(environment);
  if (environment.get_or(kRetryVariable, "").empty())
    options.limits.retry_timeout = retry_timeout.load();
  return options;
}

[[maybe_unused]] const bool registered = [] {
  register_file_system("s3", [] { return make_s3_store(options_here<S3Options>()); });
  register_file_system("gs", [] { return make_gcs_store(options_here<GcsOptions>()); });
  for (const char* scheme : {"http", "https"})
    register_file_system(scheme, [] { return make_http_store(options_here<HttpOptions>()); });
  return true;
}();

}  // namespace

void set_retry_timeout(Seconds time) { retry_timeout.store(time); }

}  // namespace muster::inline v0_1::stores
