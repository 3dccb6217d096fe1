// The query of a request: "tag=3&runs=0-9". Thread safety: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::board {

class Query {
 public:
  // Throws InvalidArgument for a percent sign that two hexadecimal digits do not follow.
  explicit Query(std::string_view query);

  bool has(const std::string& name) const { return values_.contains(name); }
  // The value; `fallback` where it is not given.
  std::string text(const std::string& name, const std::string& fallback = {}) const;
  // Throws InvalidArgument for a value that is missing, no whole number, or outside of the range.
  int64_t integer(const std::string& name, int64_t at_least, int64_t at_most,
                  std::optional<int64_t> fallback = {}) const;
  // Throws InvalidArgument for a value that is not a finite number.
  std::optional<double> number(const std::string& name) const;
  // Reads "0,3,7-9". Throws InvalidArgument for other forms, for a number that is not below
  // `count`, and where none is given.
  std::vector<size_t> numbers(const std::string& name, size_t count) const;

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace muster::inline v0_1::board
