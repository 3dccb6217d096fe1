#include "muster/stores/store_options.h"

#include <fmt/format.h>

#include <optional>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::stores {
namespace {

constexpr int kLongestRetry = 86400;  // seconds: a longer wait looks like a hang

}  // namespace

StoreOptions StoreOptions::from(const Environment& environment) {
  StoreOptions options;
  options.ca_file = environment.get_or("CURL_CA_BUNDLE", "");
  if (options.ca_file.empty()) options.ca_file = environment.get_or("SSL_CERT_FILE", "");
  const std::string seconds = environment.get_or(kRetryVariable, "");
  if (!seconds.empty()) {
    const std::optional<double> number = parse_double(seconds);
    if (!number || !(*number >= 0 && *number <= kLongestRetry)) {
      throw invalid_argument(fmt::format("{} is '{}'", kRetryVariable, seconds),
                             fmt::format("write seconds, from 0 to {}", kLongestRetry));
    }
    options.retry_timeout = Seconds(*number);
  }
  return options;
}

}  // namespace muster::inline v0_1::stores
