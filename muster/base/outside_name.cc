#include "muster/base/outside_name.h"

#include "muster/base/file_system.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1 {

std::string fault_of_name(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return "holds a slash";
  return fault_of_path(name);
}

std::string fault_of_path(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.find('\0') != std::string_view::npos) return "holds a zero byte";
  if (const std::string_view scheme = scheme_of(path); !scheme.empty())
    return "has the scheme '" + printable_beginning(scheme) + "'";
  if (path.starts_with('/')) return "is absolute";
  for (const std::string& part : split(path, '/')) {
    if (part.empty()) return "has an empty part";
    if (part == "." || part == "..") return "leads out of its folder";
  }
  return "";
}

Result<std::string> path_inside(std::string_view directory, std::string_view path,
                                const std::string& source) {
  if (const std::string fault = fault_of_path(path); !fault.empty()) {
    return corrupt(source + " names '" + printable_beginning(path) + "', which " + fault,
                   "it must name what lies in '" + std::string(directory) +
                       "': do not trust where it comes from");
  }
  return join_path(directory, path);
}

}  // namespace muster::inline v0_1
