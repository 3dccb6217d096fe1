// Decides which fields of a table are missing. Missing are empty fields, and the words that
// programs write in their place: ?, NaN, <NA>, \N, #DIV/0!. Words of people, such as NA, none, null
// and -, are missing among numbers; among texts they are texts, for "none" may be a kind of damage,
// and NA Namibia. Thread safety: values.
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
  // `words`: these and an empty field are missing, in every column, and no others. Unset: the rule
  // above.
  explicit MissingWords(std::optional<std::vector<std::string>> words) : words_(std::move(words)) {}

  // How a field without the blanks around it counts.
  Missing of(std::string_view text) const;

 private:
  std::optional<std::vector<std::string>> words_;
};

// Reads --missing: "auto" is unset, "empty" means no word, and any other value is a list with
// commas.
std::optional<std::vector<std::string>> missing_words_of(const std::string& flag);

}  // namespace muster::app
