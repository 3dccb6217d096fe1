#include "muster/base/uri.h"

#include <algorithm>

namespace muster::inline v0_1 {

std::string_view scheme_of(std::string_view path) {
  const size_t mark = path.find("://");
  if (mark == std::string_view::npos) return {};
  const std::string_view scheme = path.substr(0, mark);
  return scheme.find('/') == std::string_view::npos ? scheme : std::string_view();
}

bool is_remote(std::string_view path) {
  const std::string_view scheme = scheme_of(path);
  return !scheme.empty() && scheme != "file";
}

size_t root_size(std::string_view path) {
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return path.starts_with('/') ? 1 : 0;
  const size_t host = scheme.size() + 3;
  const size_t end = std::min(path.size(), path.find('/', host));
  // In "file:///a", as in "/a", the slash belongs to the root.
  return end == host && end < path.size() ? end + 1 : end;
}

std::string_view without_trailing_slashes(std::string_view path) {
  const size_t root = root_size(path);
  while (path.size() > root && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

}  // namespace muster::inline v0_1
