#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

StoreOptions StoreOptions::from(const Environment& environment) {
  StoreOptions options;
  options.ca_file = environment.get_or("CURL_CA_BUNDLE", "");
  if (options.ca_file.empty()) options.ca_file = environment.get_or("SSL_CERT_FILE", "");
  return options;
}

}  // namespace muster::inline v0_1::stores
