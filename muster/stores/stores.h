// Buckets of S3 and of Google Cloud Storage, and web servers, as file systems. A program that links
// this part (muster::stores) opens "s3://...", "gs://...", "http://..." and "https://..." wherever
// Muster takes a path; see muster/files/file_systems.h. The stores take their options from the
// environment when a path first asks for them. Thread safety: all calls from any thread.
#pragma once

#include "muster/base/clock.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::stores {

// Sets for how long requests to s3, gs, http and https are tried again where
// MUSTER_STORE_RETRY_SECONDS does not say; the default is the 120 s of StoreOptions. Only schemes
// of which no path has been asked for yet take the new value. A command that somebody waits for
// sets less.
MUSTER_EXPORT void set_retry_timeout(Seconds time);
[[deprecated("call set_retry_timeout()")]] inline void set_retry_seconds(double seconds) {
  set_retry_timeout(Seconds(seconds));
}

}  // namespace muster::inline v0_1::stores
