#include "muster/data/internal/iterator_state.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "muster/base/error.h"

namespace muster::inline v0_1::data::internal {

namespace {

constexpr int64_t kBytesOfNumber = sizeof(IteratorState::value_type);

}  // namespace

void append_bytes(IteratorState& saved, std::string_view bytes) {
  saved.push_back(static_cast<int64_t>(bytes.size()));
  const size_t begin = saved.size();
  const auto size = static_cast<int64_t>(bytes.size());
  saved.resize(begin + static_cast<size_t>((size + kBytesOfNumber - 1) / kBytesOfNumber));
  if (size > 0) std::memcpy(saved.data() + begin, bytes.data(), bytes.size());
}

int64_t IteratorStateReader::next() {
  if (at_ == numbers_.size()) {
    throw invalid_argument(
        fmt::format("the saved position is cut short: it has {} numbers", numbers_.size()));
  }
  return numbers_[at_++];
}

int64_t IteratorStateReader::count() {
  // Counting continues from it.
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() - (int64_t{1} << 40);
  const int64_t number = next();
  if (number >= 0 && number <= kMost) return number;
  throw invalid_argument(
      number < 0 ? fmt::format("number {} of the saved position is {}, and counts are 0 or more",
                               at_, number)
                 : fmt::format("number {} of the saved position is {}, and nothing counts that far",
                               at_, number));
}

std::string IteratorStateReader::bytes() {
  const int64_t size = count();
  // In numbers first: a size from a file may be any.
  const IteratorStateReader numbers =
      part(size / kBytesOfNumber + (size % kBytesOfNumber != 0 ? 1 : 0));
  std::string bytes(static_cast<size_t>(size), '\0');
  if (size > 0) std::memcpy(bytes.data(), numbers.numbers_.data(), bytes.size());
  return bytes;
}

IteratorStateReader IteratorStateReader::part(int64_t size) {
  if (size < 0 || static_cast<uint64_t>(size) > numbers_.size() - at_) {
    throw invalid_argument(
        fmt::format("the saved position is cut short: {} numbers are to follow number {} of {}",
                    size, at_, numbers_.size()));
  }
  const IteratorStateReader inner(numbers_.subspan(at_, static_cast<size_t>(size)));
  at_ += static_cast<size_t>(size);
  return inner;
}

}  // namespace muster::inline v0_1::data::internal
