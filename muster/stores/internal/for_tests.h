// Helpers that tests of stores share. Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "muster/base/random.h"
#include "muster/base/result.h"
#include "muster/stores/s3_store.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores::internal {

// Limits with which retries do not wait, and parts and blocks are so small that there are many.
inline StoreOptions quick_limits() {
  StoreOptions limits;
  limits.first_delay = Seconds(0.001);
  limits.longest_delay = Seconds(0.01);
  limits.retry_timeout = Seconds(20);
  limits.connect_retry_timeout = Seconds(0.1);
  limits.block_bytes = size_t{64} << 10;
  limits.blocks_ahead = 4;
  limits.part_bytes = size_t{256} << 10;
  limits.parts_in_flight = 4;
  return limits;
}

// A store on an S3 service that the environment names, with these limits.
inline std::unique_ptr<FileSystem> quick_s3_store(const Environment& environment) {
  S3Options options = S3Options::from(environment);
  options.limits = quick_limits();
  return make_s3_store(options);
}

// So many bytes, the same in each run.
inline std::string random_bytes(size_t size, uint64_t seed = 1) {
  Random random(derive_key(seed, {size}));
  std::string bytes(size, '\0');
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = random.next_u64();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

// The text of an error, and "" for success.
inline std::string what(const Status& status) { return status.ok() ? "" : status.error().what(); }

}  // namespace muster::inline v0_1::stores::internal
