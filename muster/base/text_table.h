// Sets text in columns, whose widths are counted in letters of UTF-8. Thread safety: values and
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1 {

class TextTable {
 public:
  // A title that begins with '>' names a column that is set to the right.
  explicit TextTable(std::vector<std::string> titles);
  // Adds a row. It must have as many cells as there are titles. Control characters, which names of
  // untrusted files may hold, are shown as printable() shows them, so that a row is one line.
  void add(std::vector<std::string> cells);
  // Returns the lines. Each begins with `indent` and ends without blanks.
  std::string text(const std::string& indent) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns how many letters a text of UTF-8 has.
size_t letters_in(std::string_view text);

// Returns text such as "1,234,567".
std::string with_commas(uint64_t number);

}  // namespace muster::inline v0_1
