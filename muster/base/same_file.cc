#include "muster/base/same_file.h"

#include <filesystem>
#include <system_error>

#include "muster/base/local_path.h"

namespace muster::inline v0_1 {

bool is_same_file(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const Result<std::string> first = local_path(a), second = local_path(b);
  if (!first.ok() || !second.ok()) return false;
  std::error_code none;
  return std::filesystem::equivalent(first.value(), second.value(), none) && !none;
}

}  // namespace muster::inline v0_1
