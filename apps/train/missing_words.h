// Which fields of a table are missing. An empty one is, and what programs write in its place: ?,
// NaN, <NA>, \N, #DIV/0!. Words of people, such as NA, none, null and -, are missing among numbers;
// among texts they are texts, for "none" may be a kind of damage, and NA Namibia. Thread safety:
// values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::app {

enum class Missing {
  kNo,
  kWord,  // where the column is one of numbers
  kYes,
};

class MissingWords {
 public:
  // `words`: these and an empty field are missing, in every column, and nothing else. Unset: the
  // rule above.
  explicit MissingWords(std::optional<std::vector<std::string>> words) : words_(std::move(words)) {}

  // Classifies a field without the blanks around it.
  Missing of(std::string_view text) const;

 private:
  std::optional<std::vector<std::string>> words_;
};

// Reads --missing: "auto" is unset, "empty" no word, and else a list with commas.
std::optional<std::vector<std::string>> missing_words_of(const std::string& flag);

}  // namespace muster::app
