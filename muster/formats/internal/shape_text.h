// Shapes in messages. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/strings.h"

namespace muster::inline v0_1::formats::internal {

// Returns text such as "[2, 3]".
inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

}  // namespace muster::inline v0_1::formats::internal
