// Files behind http:// and https:// URIs, to read. Thread safety: as FileSystem.
//
// A server that answers to ranges is read in blocks, with read-ahead; of another the whole file is
// fetched into memory when it is opened, if it has 256 MiB at most. Redirects are followed, from
// https:// to https:// only. Writing and listing return InvalidArgument, which says what to do
// instead.
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
