#include "muster/tensor/leaf_name.h"

#include <fmt/format.h>

namespace muster::inline v0_1 {

std::string leaf_name(const Structure& structure, int64_t leaf) {
  const bool dict = structure.kind == Structure::Kind::kDict;
  for (size_t i = 0; i < structure.children.size(); ++i) {
    const Structure& child = structure.children[i];
    if (leaf >= child.leaves()) {
      leaf -= child.leaves();
      continue;
    }
    const std::string rest = leaf_name(child, leaf);
    const std::string own = dict ? structure.keys[i] : fmt::format("[{}]", i);
    return rest.empty() || rest.front() == '[' ? own + rest : own + "." + rest;
  }
  return "";
}

Error with_leaf_name(const Error& error, const Structure& structure, size_t leaf) {
  const std::string name = leaf_name(structure, static_cast<int64_t>(leaf));
  if (name.empty()) return error;
  return Error(error.kind(), name + ": " + error.message(), error.hint());
}

}  // namespace muster::inline v0_1
