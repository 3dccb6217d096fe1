// RegularExpression says whether a text, such as a name, has a form: a regular expression of RE2
// (https://github.com/google/re2/wiki/Syntax), which has no lookahead and no back references.
// Pattern and text are bytes: '.' takes one of them. The time that it takes is linear in the text.
// Thread safety: an immutable value; copies share the compiled form.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1 {

class RegularExpression {
 public:
  // The parts of a match: the whole of it, then the text of each pair of parentheses, "" if it took
  // nothing.
  using Groups = std::vector<std::string>;

  // Throws InvalidArgument that names `pattern` and its fault in RE2's words.
  explicit RegularExpression(const std::string& pattern);

  const std::string& pattern() const;

  // Whether the pattern is found somewhere in `text`. If it is, `groups`, when given, gets the
  // groups of the first match; otherwise it stays unchanged.
  bool search(std::string_view text, Groups* groups = nullptr) const;
  // The same for the whole of `text`.
  bool full_match(std::string_view text, Groups* groups = nullptr) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1
