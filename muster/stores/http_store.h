// Files at http:// and https:// URIs, read only. Thread safety: as FileSystem.
//
// If the server supports range requests, a file is read in blocks, with read-ahead. Otherwise the
// whole file is loaded into memory when it is opened, up to 256 MiB. Redirects are followed, from
// https:// only to https://. Writing and listing return InvalidArgument, with what to do instead.
#pragma once

#include <memory>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// The limits for reading from web servers.
struct MUSTER_EXPORT HttpOptions {
  StoreOptions limits{};

  // Reads what StoreOptions::from() reads.
  static HttpOptions from(const Environment& environment);
};

// Makes the file system of http:// and https:// URIs.
MUSTER_EXPORT std::unique_ptr<FileSystem> make_http_store(const HttpOptions& options);

}  // namespace muster::inline v0_1::stores
