// The beginnings of paths and URIs. Thread safety: pure functions.
//
// A path is plain ("models/a") or a URI ("s3://bucket/models/a"). A URI has a root, which is its
// scheme and the part after it ("s3://bucket"), and a path below the root.
#pragma once

#include <cstddef>
#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns "s3" for "s3://bucket/a", and nothing for a plain path. A slash before "://" makes a path
// plain.
std::string_view scheme_of(std::string_view path);

// Whether the path names an object of a store rather than a file of this machine: it has a scheme
// other than "file". A store keeps objects, each of which is written whole: nothing there is
// renamed in one step, grows, or is locked, and folders are only common prefixes of the names of
// objects.
MUSTER_PART_EXPORT bool is_remote(std::string_view path);

// Returns the number of letters of the root: of "s3://bucket", of "file:///", of "/"; 0 for a
// relative path.
size_t root_size(std::string_view path);

// Returns the path without slashes at its end; a root stays unchanged: "gs://bucket/model/" becomes
// "gs://bucket/model".
MUSTER_PART_EXPORT std::string_view without_trailing_slashes(std::string_view path);

}  // namespace muster::inline v0_1
