// Sets text in columns. Thread safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::app {

class Table {
 public:
  // A title that begins with '>' names a column that is set to the right.
  explicit Table(std::vector<std::string> titles);
  // Adds a row. It must have as many cells as there are titles.
  void add(std::vector<std::string> cells);
  // Returns the lines. Each begins with `indent` and ends without blanks.
  std::string text(const std::string& indent) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns text such as "1,234,567".
std::string with_commas(uint64_t number);

}  // namespace muster::app
