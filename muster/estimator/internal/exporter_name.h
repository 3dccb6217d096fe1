// The allowed names of exporters. Thread safety: a pure function.
#pragma once

#include <string>

namespace muster::inline v0_1::internal {

// Whether the name is the name of one folder, inside of another.
inline bool names_a_folder(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

}  // namespace muster::inline v0_1::internal
