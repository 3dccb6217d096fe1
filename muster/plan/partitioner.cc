#include "muster/plan/partitioner.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

void check_at_least(const char* what, int64_t value, int64_t least) {
  if (value >= least) return;
  throw invalid_argument(fmt::format("a partitioner got {} = {}", what, value),
                         fmt::format("give {} or more", least));
}

}  // namespace

Partitioner Partitioner::none() { return {Kind::kNone, 0, 0}; }

Partitioner Partitioner::fixed(int64_t parts) {
  check_at_least("parts", parts, 1);
  return {Kind::kFixed, parts, 0};
}

Partitioner Partitioner::min_size(int64_t bytes, int64_t max_parts) {
  check_at_least("bytes", bytes, 1);
  check_at_least("max_parts", max_parts, 0);
  return {Kind::kMinSize, bytes, max_parts};
}

Partitioner Partitioner::max_size(int64_t bytes, int64_t max_parts) {
  check_at_least("bytes", bytes, 1);
  check_at_least("max_parts", max_parts, 0);
  return {Kind::kMaxSize, bytes, max_parts};
}

int64_t Partitioner::parts(int64_t rows, int64_t bytes_per_row, int servers) const {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  int64_t parts = 1;
  switch (kind_) {
    case Kind::kNone:
      break;
    case Kind::kFixed:
      parts = size_;
      break;
    case Kind::kMinSize:
      parts = std::min(up(rows * bytes_per_row, size_), max_parts_ == 0 ? servers : max_parts_);
      break;
    case Kind::kMaxSize:
      parts = up(rows, std::max<int64_t>(1, size_ / std::max<int64_t>(1, bytes_per_row)));
      if (max_parts_ > 0) parts = std::min(parts, max_parts_);
      break;
  }
  return std::max<int64_t>(1, std::min(parts, rows));
}

std::string Partitioner::describe() const {
  const std::string most = max_parts_ > 0 ? fmt::format(", max_parts={}", max_parts_) : "";
  switch (kind_) {
    case Kind::kNone:
      return "none";
    case Kind::kFixed:
      return fmt::format("fixed({})", size_);
    case Kind::kMinSize:
      return fmt::format("min_size({}{})", size_, most);
    case Kind::kMaxSize:
      return fmt::format("max_size({}{})", size_, most);
  }
  return "";
}

}  // namespace muster::inline v0_1::plan
