// Objects of Amazon S3, and of compatible services (MinIO, Ceph, R2), as files: s3://bucket/key.
// Thread safety: as FileSystem.
//
// - A directory exists while a key begins with its name and a slash. make_directories() only checks
//   that the bucket exists.
// - A StagedWriter uploads parts while it is written; commit() makes the complete object visible in
//   one step. Its sync() has no effect: uncommitted bytes are lost in a crash.
// - A FileWriter replaces the object at each flush(), sync() and close(): readers see the bytes up
//   to one of these. It appends to an existing object. docs/buckets.md says what that costs.
// - A FileReader reads one version of the object. If the object is replaced meanwhile, reading
//   returns Unavailable, never a mixture.
// - rename() copies on the server and then removes the original: not one step.
// - remove_tree() refuses a whole bucket.
#pragma once

#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// The address of the service, and the credentials for it.
struct MUSTER_EXPORT S3Options {
  // "http://127.0.0.1:9000": buckets are then part of the path. Empty: Amazon's, by region.
  std::string endpoint{};
  std::string region{};  // empty: us-east-1; the region of another bucket is detected
  // Names the credentials: AWS_ACCESS_KEY_ID and the others of docs/buckets.md. They are read when
  // the first request needs them.
  Environment environment{};
  // Whether writes carry a CRC-32C, with which the service refuses bytes that were damaged on the
  // way. Over https the body is then not signed: its SHA-256 costs more than sending it. A service
  // without support for such checksums is detected, and gets signed bodies.
  bool checksums = true;
  // Whether to do the same over http, where it does not protect against deliberate changes.
  bool unsigned_http = false;
  // Whether the credentials' account pays for requests to requester-pays buckets.
  bool requester_pays = false;
  StoreOptions limits{};

  // Reads AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL; AWS_REGION, else AWS_DEFAULT_REGION, else the
  // profile's region of the config file; AWS_REQUEST_CHECKSUM_CALCULATION, else the profile's
  // (when_required: no checksums); MUSTER_S3_UNSIGNED_HTTP (1); AWS_CA_BUNDLE, else the profile's;
  // AWS_REQUEST_PAYER. Throws InvalidArgument where that is not "requester".
  static S3Options from(const Environment& environment);
};

// Makes the file system of s3:// URIs. It connects when it is first used. Throws InvalidArgument
// unless the endpoint is a scheme (http:// or https://) and a host.
MUSTER_EXPORT std::unique_ptr<FileSystem> make_s3_store(S3Options options);

}  // namespace muster::inline v0_1::stores
