// A directory for files that a benchmark's processes share, removed with the object. Thread safety:
// construct and destroy on one thread.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "muster/base/error.h"

namespace muster::bench {

struct Scratch {
  std::string path = std::filesystem::temp_directory_path() / "muster-bench-XXXXXX";
  Scratch() {
    if (mkdtemp(path.data()) == nullptr) throw from_errno(errno, "cannot make " + path);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace muster::bench
