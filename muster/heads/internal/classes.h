// The names of classes, and labels that are such names. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/tensor/tensor.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1::internal {

class Classes {
 public:
  // `vocabulary` has `count` names, or none. Throws InvalidArgument, which begins with `head`, for
  // another number of them, and for a name that occurs twice or is empty.
  Classes(std::string head, int64_t count, std::vector<std::string> vocabulary);
  Classes(const Classes&) = delete;  // the numbers point into the names
  Classes& operator=(const Classes&) = delete;

  int64_t count() const { return static_cast<int64_t>(names_.size()); }
  // The vocabulary, or "0", "1", ...
  const std::vector<std::string>& names() const { return names_; }
  bool has_vocabulary() const { return !numbers_.empty(); }
  // Returns the number of a name, and nothing for one that is not in the vocabulary.
  std::optional<int64_t> find(std::string_view name) const;
  // Returns the numbers of names, int64 in their shape; for "" -1 if `empty_is_none`. Throws
  // InvalidArgument for a name that is not in the vocabulary, and if there is none.
  Tensor numbers_of(const Strings& labels, bool empty_is_none = false) const;

 private:
  std::string head_;
  std::vector<std::string> names_;
  std::unordered_map<std::string_view, int64_t> numbers_;  // of the vocabulary
};

}  // namespace muster::inline v0_1::internal
