// Saved positions as plain numbers. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::data::internal {

// A position as plain numbers, written by save() for every element that prefetch reads; they are
// all that is saved.
using IteratorState = std::vector<int64_t>;

// Appends text of any length: its size, and eight bytes to a number.
void append_bytes(IteratorState& saved, std::string_view bytes);

// Reads the values of save(), in its order. Throws InvalidArgument for numbers that save() does not
// write: positions come from files.
class IteratorStateReader {
 public:
  explicit IteratorStateReader(std::span<const int64_t> saved) : numbers_(saved) {}
  int64_t next();
  // The same, at least 0, and far enough from the largest number that counting can continue.
  int64_t count();
  // The next `size` numbers as a position of their own.
  IteratorStateReader part(int64_t size);
  // Reads the result of append_bytes().
  std::string bytes();
  bool at_end() const { return at_ == numbers_.size(); }

 private:
  std::span<const int64_t> numbers_;
  size_t at_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
