#include "muster/base/regular_expression.h"

#include <fmt/format.h>

#include <mutex>
#include <regex>

#include "muster/base/error.h"

namespace muster::inline v0_1 {
namespace {

// The library's own words differ from version to version.
const char* what_is_wrong(std::regex_constants::error_type code) {
  using namespace std::regex_constants;
  // The library calls both a parenthesis that is wrong.
  if (code == error_paren) return "a '(' or ')' has no partner, or a '*' has nothing to repeat";
  if (code == error_brack) return "a '[' has no ']'";
  if (code == error_brace || code == error_badbrace) return "what stands in '{}' is no repetition";
  if (code == error_range) return "a range such as [z-a] runs backwards";
  if (code == error_escape) return "a '\\' stands before nothing it could escape";
  if (code == error_badrepeat) return "a '*', '+', '?' or '{' has nothing to repeat";
  if (code == error_backref) return "a back reference names no group before it";
  if (code == error_ctype) return "there is no class of characters of that name";
  if (code == error_collate) return "there is no collating element of that name";
  return "it needs too much memory or time";
}

std::regex compiled(const std::string& pattern) {
  // The library keeps what its locale says of a letter without a lock.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    return std::regex(pattern);
  } catch (const std::regex_error& error) {
    throw invalid_argument(
        fmt::format("\"{}\" is no regular expression: {}", pattern, what_is_wrong(error.code())),
        "a '\\' stands before a character that means itself, such as '.', '(' "
        "or '+'; the form is that of ECMAScript");
  }
}

void check_length(const std::string& pattern, std::string_view text) {
  if (text.size() <= RegularExpression::kLongestText) return;
  throw invalid_argument(
      fmt::format("a text of {} bytes was given to the regular expression \"{}\"", text.size(),
                  pattern),
      fmt::format("it takes at most {}; divide the text", RegularExpression::kLongestText));
}

}  // namespace

struct RegularExpression::Compiled {
  const std::string pattern;
  const std::regex regex;
};

RegularExpression::RegularExpression(const std::string& pattern)
    : compiled_(std::make_shared<const Compiled>(pattern, compiled(pattern))) {}

const std::string& RegularExpression::pattern() const { return compiled_->pattern; }

bool RegularExpression::search(std::string_view text, Groups* groups) const {
  check_length(pattern(), text);
  std::cmatch found;
  if (!std::regex_search(text.data(), text.data() + text.size(), found, compiled_->regex))
    return false;
  if (groups != nullptr) groups->assign(found.begin(), found.end());
  return true;
}

bool RegularExpression::full_match(std::string_view text, Groups* groups) const {
  check_length(pattern(), text);
  std::cmatch found;
  if (!std::regex_match(text.data(), text.data() + text.size(), found, compiled_->regex))
    return false;
  if (groups != nullptr) groups->assign(found.begin(), found.end());
  return true;
}

}  // namespace muster::inline v0_1
