// Options that all stores share: limits of time and memory. Thread safety: values.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::stores {

// The variable with the retry_timeout of all stores, in seconds.
inline constexpr const char* kRetryVariable = "MUSTER_STORE_RETRY_SECONDS";

// The limits of one store. The defaults suit a data centre as well as a home connection.
struct MUSTER_EXPORT StoreOptions {
  Seconds connect_timeout{10};  // for establishing a connection
  // A transfer slower than 1 KiB per second for this long is aborted and retried.
  Seconds stall_timeout{30};
  Seconds retry_timeout{120};  // from the first failure of a request until it is given up
  // From the first failure to connect until it is given up, if that server was never reached: a
  // wrong address then fails early.
  Seconds connect_retry_timeout{15};
  Seconds first_delay{0.1};   // before the first retry; doubles with each retry
  Seconds longest_delay{10};  // the longest time between two tries

  size_t block_bytes = size_t{8} << 20;         // the largest number of bytes per read request
  int blocks_ahead = 12;                        // requests in flight for one sequential reader
  size_t read_ahead_bytes = size_t{256} << 20;  // memory for read-ahead of all readers together
  size_t part_bytes = size_t{8} << 20;          // initial number of bytes per upload request
  // Requests in flight for one upload; fewer for larger parts, but at least 4.
  int parts_in_flight = 16;

  std::string ca_file{};           // trusted certificates; empty: those of the system
  Clock* clock = &system_clock();  // for the time between retries

  // Reads `ca_file` from CURL_CA_BUNDLE, else from SSL_CERT_FILE, and `retry_timeout` from
  // MUSTER_STORE_RETRY_SECONDS. Throws InvalidArgument where that is not 0 to 86,400. Proxies are
  // read by libcurl, from https_proxy, http_proxy, all_proxy and no_proxy.
  static StoreOptions from(const Environment& environment);
};

}  // namespace muster::inline v0_1::stores
