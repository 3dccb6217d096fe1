// RegularExpression says whether a text, such as a name, has a form: a regular expression of RE2
// (https://github.com/google/re2/wiki/Syntax), which has no lookahead and no back references.
// Pattern and text are bytes: '.' takes one of them. The time that it takes is linear in the text.
// Thread safety: an immutable value; copies share what was compiled.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1 {

class RegularExpression {
 public:
  // What a match holds: the whole of it, then what each pair of parentheses took, "" where it took
  // nothing.
  using Groups = std::vector<std::string>;

  // Throws InvalidArgument that names `pattern` and says what is wrong in it in RE2's words.
  explicit RegularExpression(const std::string& pattern);

  const std::string& pattern() const;

  // Whether the pattern is found somewhere in `text`; `groups`, when given, are then those of the
  // first match, and stay as they are otherwise.
  bool search(std::string_view text, Groups* groups = nullptr) const;
  // The same for the whole of `text`.
  bool full_match(std::string_view text, Groups* groups = nullptr) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1
