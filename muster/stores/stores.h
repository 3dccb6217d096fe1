// Buckets of S3 and of Google Cloud Storage, and web servers, as file systems. A program that links
// this part (muster::stores) can use "s3://...", "gs://...", "http://..." and "https://..."
// wherever Muster takes a path; see muster/files/file_systems.h. The stores read their options from
// the environment when a path first uses them. Thread safety: all calls from any thread.
#pragma once

#include "muster/base/clock.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::stores {

// Sets how long requests to s3, gs, http and https are retried, unless MUSTER_STORE_RETRY_SECONDS
// is set; the default is the 120 s of StoreOptions. It affects only schemes that have not been used
// yet. Interactive programs set a shorter time.
MUSTER_EXPORT void set_retry_timeout(Seconds time);
[[deprecated("call set_retry_timeout()")]] inline void set_retry_seconds(double seconds) {
  set_retry_timeout(Seconds(seconds));
}

}  // namespace muster::inline v0_1::stores
