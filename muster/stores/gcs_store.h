// Objects of Google Cloud Storage as files: gs://bucket/object, by its JSON API. Thread safety: as
// FileSystem.
//
// Directories, writers, readers and remove_tree() work as described in s3_store.h. A StagedWriter
// is a resumable upload: after a lost connection it continues where the service says.
#pragma once

#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// The address of the service, and the credentials for it.
struct MUSTER_EXPORT GcsOptions {
  // "http://127.0.0.1:4443" for an emulator, which gets no credentials. Empty: Google's.
  std::string endpoint{};
  std::string quota_project{};  // whose quota is used, if not that of the credentials
  // The project that pays for requests to requester-pays buckets; empty: none.
  std::string user_project{};
  // Names the credentials: GOOGLE_APPLICATION_CREDENTIALS and the others of docs/buckets.md. They
  // are read when the first request needs them.
  Environment environment{};
  StoreOptions limits{};

  // Reads STORAGE_EMULATOR_HOST, GOOGLE_CLOUD_QUOTA_PROJECT and GS_USER_PROJECT.
  static GcsOptions from(const Environment& environment);
};

// Makes the file system of gs:// URIs. It connects when it is first used.
MUSTER_EXPORT std::unique_ptr<FileSystem> make_gcs_store(GcsOptions options);

}  // namespace muster::inline v0_1::stores
