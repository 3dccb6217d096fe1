// Objects of Amazon S3, and of what speaks its protocol (MinIO, Ceph, R2), as files:
// s3://bucket/key. Thread safety: as FileSystem.
//
// - A directory is there while a key begins with its name and a slash. make_directories() only
//   checks that the bucket exists.
// - A StagedWriter sends parts while it is written; commit() makes the object visible, whole, in
//   one step. Its sync() gives nothing a name and saves nothing: what was not committed is lost in
//   a crash.
// - A FileWriter replaces the object at each flush(), sync() and close(): readers see the bytes up
//   to one of them. An object that is there is continued. See docs/buckets.md for what that costs.
// - A FileReader reads one version of the object. When the object is replaced meanwhile, reading
//   returns Unavailable and never a mixture.
// - rename() copies on the server and then removes: not one step.
// - remove_tree() refuses a whole bucket.
#pragma once

#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// Where the buckets are, and whose credentials open them.
struct MUSTER_EXPORT S3Options {
  // "http://127.0.0.1:9000": buckets are then part of the path. Empty: Amazon's, by region.
  std::string endpoint{};
  std::string
      region{};  // empty: us-east-1; a bucket elsewhere is found by what the service answers
  // Names the credentials: AWS_ACCESS_KEY_ID and the others of docs/buckets.md. They are looked up
  // when the first request needs them.
  Environment environment{};
  // Whether what is written goes with its CRC-32C, by which the service refuses what was changed on
  // the way. Over https the body is not signed then: its SHA-256 costs more than sending it. A
  // service that does not know such checksums is found out, and gets signed bodies.
  bool checksums = true;
  // Whether the same is done over http, where it says nothing of changes made on purpose.
  bool unsigned_http = false;
  // Whether the credentials' account pays for requests to buckets whose readers pay.
  bool requester_pays = false;
  StoreOptions limits{};

  // Reads AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL; AWS_REGION, else AWS_DEFAULT_REGION, else the
  // profile's region of the config file; AWS_REQUEST_CHECKSUM_CALCULATION, else the profile's
  // (when_required: no checksums); MUSTER_S3_UNSIGNED_HTTP (1); AWS_CA_BUNDLE, else the profile's;
  // AWS_REQUEST_PAYER. Throws InvalidArgument where that is not "requester".
  static S3Options from(const Environment& environment);
};

// Makes the file system of s3:// URIs. It connects when it is first used. Throws InvalidArgument
// when the endpoint is none: a scheme (http:// or https://) and a host.
MUSTER_EXPORT std::unique_ptr<FileSystem> make_s3_store(S3Options options);

}  // namespace muster::inline v0_1::stores
