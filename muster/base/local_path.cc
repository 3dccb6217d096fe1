#include "muster/base/local_path.h"

#include <string>

#include "muster/base/printable.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1 {

Result<std::string> local_path(const std::string& path) {
  if (path.empty()) return invalid_argument("a file path is empty");
  // The system would take the part before it for the whole.
  if (path.find('\0') != std::string::npos) {
    return invalid_argument("the path '" + printable_beginning(path) + "' holds a zero byte",
                            "no file has such a name: correct it where it comes from");
  }
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
