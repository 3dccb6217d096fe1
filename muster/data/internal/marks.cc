#include "muster/data/internal/marks.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::data::internal {

int64_t MarkReader::next() {
  if (at_ == marks_.size()) {
    throw invalid_argument(
        fmt::format("the saved position is cut short: it has {} numbers", marks_.size()));
  }
  return marks_[at_++];
}

int64_t MarkReader::count() {
  const int64_t number = next();
  if (number >= 0) return number;
  throw invalid_argument(
      fmt::format("number {} of the saved position is {}, and counts are 0 or more", at_, number));
}

MarkReader MarkReader::part(int64_t size) {
  if (size < 0 || static_cast<uint64_t>(size) > marks_.size() - at_) {
    throw invalid_argument(
        fmt::format("the saved position is cut short: {} numbers are to follow number {} of {}",
                    size, at_, marks_.size()));
  }
  const MarkReader inner(marks_.subspan(at_, static_cast<size_t>(size)));
  at_ += static_cast<size_t>(size);
  return inner;
}

}  // namespace muster::inline v0_1::data::internal
