// Looks up the texts of an input. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "muster/export/signature.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1::internal {

class TextIds {
 public:
  explicit TextIds(const TextInput& input);
  // int64, in the shape of the texts.
  Tensor operator()(const Strings& texts) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  const int64_t unknown_;
};

}  // namespace muster::inline v0_1::internal
