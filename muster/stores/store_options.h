// What the stores behind URIs have in common: limits of time and memory. Thread safety: values.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::stores {

// The variable with the retry_timeout of all stores, in seconds.
inline constexpr const char* kRetryVariable = "MUSTER_STORE_RETRY_SECONDS";

// The limits of one store. The defaults suit a data centre and a home connection alike.
struct MUSTER_EXPORT StoreOptions {
  Seconds connect_timeout{10};  // until a connection must stand
  // A transfer that moves fewer than 1 KiB in each second of so many is given up and tried again.
  Seconds stall_timeout{30};
  Seconds retry_timeout{120};  // from the first failure of a request until it is given up
  // From the first failure to connect until it is given up, where that server was never reached: a
  // wrong address should not cost minutes.
  Seconds connect_retry_timeout{15};
  Seconds first_delay{0.1};   // before the first retry; it doubles from then on
  Seconds longest_delay{10};  // between two tries

  size_t block_bytes = size_t{8} << 20;         // what one request reads at most
  int blocks_ahead = 12;                        // requests in flight for one sequential reader
  size_t read_ahead_bytes = size_t{256} << 20;  // what all readers together hold ahead
  size_t part_bytes = size_t{8} << 20;          // what one request of an upload sends at first
  // Requests in flight for one upload; of parts that have become larger fewer, but 4.
  int parts_in_flight = 16;

  std::string ca_file{};           // of certificates to trust; empty: those of the system
  Clock* clock = &system_clock();  // for the waits between tries

  // Reads `ca_file` from CURL_CA_BUNDLE, else from SSL_CERT_FILE, and `retry_timeout` from
  // MUSTER_STORE_RETRY_SECONDS. Throws InvalidArgument where that is not 0 to 86,400. Proxies are
  // read by libcurl, from https_proxy, http_proxy, all_proxy and no_proxy.
  static StoreOptions from(const Environment& environment);
};

}  // namespace muster::inline v0_1::stores
