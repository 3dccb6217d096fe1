#include "apps/muster/install_prefix.h"

namespace muster::app {

namespace fs = std::filesystem;

Installation installation_of(const fs::path& self) {
  const fs::path prefix = self.parent_path().parent_path();
  std::error_code ignored;
  if (self.parent_path().filename() != "bin" || !fs::is_directory(prefix, ignored)) return {};
  const auto has_library = [&](const fs::path& folder) {
    return fs::exists(folder / "cmake/muster/musterConfig.cmake", ignored);
  };
  // The library is in lib/cmake, lib64/cmake or lib/<architecture>/cmake.
  for (const char* library : {"lib", "lib64"}) {
    const fs::path folder = prefix / library;
    if (has_library(folder)) return {prefix.string(), library};
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (!has_library(entry.path())) continue;
      return {prefix.string(), library + ("/" + entry.path().filename().string())};
    }
  }
  return {};
}

}  // namespace muster::app
