#include "muster/base/local_path.h"

#include <string>

#include "muster/base/uri.h"

namespace muster::inline v0_1 {

Result<std::string> local_path(const std::string& path) {
  if (path.empty()) return invalid_argument("a file path is empty");
  const std::string scheme(scheme_of(path));
  if (scheme.empty()) return path;
  if (scheme != "file") {
    return invalid_argument(
        "no file system is registered for the scheme '" + scheme + "' of '" + path + "'",
        "use a path on this machine, plain or starting with file://");
  }
  std::string local = path.substr(scheme.size() + 3);
  if (local.rfind("localhost/", 0) == 0) local.erase(0, 9);
  if (local.empty() || local[0] != '/') {
    return invalid_argument("'" + path + "' names no absolute path", "write file:///absolute/path");
  }
  return local;
}

}  // namespace muster::inline v0_1
