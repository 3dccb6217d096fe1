// Paths and URIs of files on this machine. Thread safety: a pure function.
#pragma once

#include <string>

#include "muster/base/result.h"

namespace muster::inline v0_1 {

// Returns the path on this machine that `path` names: `path` itself if it is plain, and the part
// after file:// if it is such a URI ("file:///models/a", "file://localhost/models/a"). Returns
// InvalidArgument for another scheme, which it names, for a URI without an absolute path, for an
// empty path, and for one that holds a zero byte.
Result<std::string> local_path(const std::string& path);

}  // namespace muster::inline v0_1
