#include "muster/data/internal/file_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/random.h"

namespace muster::inline v0_1::data::internal {

std::string digest_of_names(std::span<const std::string> paths) {
  std::string names;
  if (!paths.empty()) {
    std::string_view common = paths.front();
    for (const std::string& path : paths) {
      const auto [end, other] =
          std::mismatch(common.begin(), common.end(), path.begin(), path.end());
      common = common.substr(0, static_cast<size_t>(end - common.begin()));
    }
    // Names that begin alike are not a directory.
    const size_t directory =
        common.rfind('/') == std::string_view::npos ? 0 : common.rfind('/') + 1;
    for (const std::string& path : paths) names += path.substr(directory) + '\n';
  }
  return fmt::format("{:016x}", id_of(names));
}

}  // namespace muster::inline v0_1::data::internal
