#include "muster/files/regular_expression.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

struct RegularExpression::Compiled {
  explicit Compiled(const std::string& pattern) : re2(pattern, options()) {}

  static RE2::Options options() {
    RE2::Options options(RE2::Latin1);
    options.set_log_errors(false);
    return options;
  }
  bool match(std::string_view text, RE2::Anchor anchor, Groups* groups) const {
    std::vector<re2::StringPiece> found;
    if (groups != nullptr) found.resize(1 + static_cast<size_t>(re2.NumberOfCapturingGroups()));
    // RE2 of Debian 13 takes Abseil's view, which a std::string_view does not become by itself.
    const re2::StringPiece all(text.data(), text.size());
    if (!re2.Match(all, 0, all.size(), anchor, found.data(), static_cast<int>(found.size())))
      return false;
    if (groups == nullptr) return true;
    groups->clear();
    for (const auto& one : found) groups->emplace_back(one.data(), one.size());
    return true;
  }

  const RE2 re2;
};

RegularExpression::RegularExpression(const std::string& pattern)
    : compiled_(std::make_shared<const Compiled>(pattern)) {
  if (compiled_->re2.ok()) return;
  throw invalid_argument(
      fmt::format("\"{}\" is not a regular expression: {}", pattern, compiled_->re2.error()),
      "the syntax is RE2's, which has no lookahead and no back references; write '\\' before a "
      "character that means itself, such as '.', '(' or '+'");
}

const std::string& RegularExpression::pattern() const { return compiled_->re2.pattern(); }

bool RegularExpression::search(std::string_view text, Groups* groups) const {
  return compiled_->match(text, RE2::UNANCHORED, groups);
}

bool RegularExpression::full_match(std::string_view text, Groups* groups) const {
  return compiled_->match(text, RE2::ANCHOR_BOTH, groups);
}

}  // namespace muster::inline v0_1
