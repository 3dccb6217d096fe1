#include "apps/train/missing_words.h"

#include <algorithm>
#include <array>

#include "muster/base/strings.h"

namespace muster::app {
namespace {

// In small letters.
constexpr std::array<std::string_view, 19> kOfPrograms = {
    "?",      "nan",   "-nan",    "nat",    "#n/a",    "#na",     "#n/a n/a",
    "<na>",   "\\n",   "(null)",  "#null!", "#div/0!", "#value!", "#ref!",
    "#name?", "#num!", "1.#qnan", "1.#ind", "-1.#ind"};
constexpr std::array<std::string_view, 10> kOfPeople = {
    "na", "n/a", "none", "null", "nil", "-", "--", ".", "\xe2\x80\x93", "\xe2\x80\x94"};
constexpr size_t kLongest = 8;

}  // namespace

Missing MissingWords::of(std::string_view text) const {
  if (text.empty()) return Missing::kYes;
  if (words_)
    return std::ranges::find(*words_, text) != words_->end() ? Missing::kYes : Missing::kNo;
  if (text.size() > kLongest) return Missing::kNo;
  const std::string small = to_lower(text);
  if (std::ranges::find(kOfPrograms, small) != kOfPrograms.end()) return Missing::kYes;
  return std::ranges::find(kOfPeople, small) != kOfPeople.end() ? Missing::kWord : Missing::kNo;
}

std::optional<std::vector<std::string>> missing_words_of(const std::string& flag) {
  if (flag == "auto") return std::nullopt;
  std::vector<std::string> words;
  if (flag == "empty") return words;
  for (const std::string& word : split(flag, ','))
    if (const auto trimmed = trim(word); !trimmed.empty()) words.emplace_back(trimmed);
  return words;
}

}  // namespace muster::app
