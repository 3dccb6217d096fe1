// RegularExpression says whether a text, such as a name, has a form: a regular expression of
// ECMAScript, as std::regex reads it. Whoever includes <regex> pays for it with seconds of a
// compiler; this header does not.
// Thread safety: an immutable value; copies share what was compiled.
#pragma once

#include <cstddef>
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

  // The longest text, in bytes. Matching recurs for every byte, up to 1 KB of stack for each.
  static constexpr size_t kLongestText = 4096;

  // Throws InvalidArgument that names `pattern` and what is wrong in it.
  explicit RegularExpression(const std::string& pattern);

  const std::string& pattern() const;

  // Whether the pattern is found somewhere in `text`; `groups`, when given, are then those of the
  // first match, and stay as they are otherwise. Throws InvalidArgument when `text` is longer than
  // kLongestText.
  bool search(std::string_view text, Groups* groups = nullptr) const;
  // The same for the whole of `text`.
  bool full_match(std::string_view text, Groups* groups = nullptr) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::inline v0_1
