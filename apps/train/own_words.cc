#include "apps/train/own_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

namespace muster::app {
namespace {

// A hint that has the first text becomes the second.
struct Advice {
  std::string_view about, instead;
};
constexpr std::array<Advice, 5> kAdvice = {{
    {"learning_rate", "look at the sizes of the label and of the weights: divide them by a number"},
    {"NonFinitePolicy", "look for numbers that are far too large, or leave columns out: --exclude"},
    {"non_finite", "look for numbers that are far too large, or leave columns out: --exclude"},
    {"strategy=parameter_server", "muster train needs no parameter servers: leave --ps out"},
    {"train_and_evaluate", "muster train evaluates by itself: start workers only"},
}};

bool is_of_word(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
}

// Replaces model_dir in a hint by --model-dir, but not if it is part of another word.
std::string with_flags(std::string hint) {
  constexpr std::string_view kOption = "model_dir", kFlag = "--model-dir";
  for (size_t at = hint.find(kOption); at != std::string::npos; at = hint.find(kOption, at)) {
    const size_t end = at + kOption.size();
    const bool is_word =
        (at == 0 || (!is_of_word(hint[at - 1]) && hint[at - 1] != '-' && hint[at - 1] != '.')) &&
        (end == hint.size() || !is_of_word(hint[end]));
    if (is_word) hint.replace(at, kOption.size(), kFlag);
    at += is_word ? kFlag.size() : kOption.size();
  }
  return hint;
}

// Whether it names a function, a type or a field of C++. Text in quotes belongs to the table.
bool names_code(std::string_view hint) {
  std::string word;
  bool in_quotes = false;
  for (size_t i = 0; i <= hint.size(); ++i) {
    const char letter = i < hint.size() ? hint[i] : ' ';
    if (letter == '\'' && (in_quotes || i == 0 || !is_of_word(hint[i - 1]))) {
      in_quotes = !in_quotes;
      word.clear();
      continue;
    }
    if (in_quotes) continue;
    if (is_of_word(letter)) {
      word += letter;
      continue;
    }
    const bool is_call = letter == '(' && i + 1 < hint.size() && !word.empty() &&
                         hint[i - 1] != ' ' && (hint[i + 1] == ')' || hint[i + 1] == '{');
    const bool is_scope = letter == ':' && i + 1 < hint.size() && hint[i + 1] == ':';
    const bool is_field = word.find('_') != std::string::npos &&
                          std::ranges::any_of(word, [](char c) { return c >= 'a' && c <= 'z'; }) &&
                          word != "multi_worker" && word != "boosted_trees" &&
                          word != "wide_and_deep" && word != "one_device";
    if (is_call || is_scope || is_field || word == "RunConfig") return true;
    word.clear();
  }
  return false;
}

}  // namespace

Error in_own_words(const Error& error) {
  std::string hint = with_flags(error.hint());
  for (const auto& [about, instead] : kAdvice) {
    if (hint.find(about) == std::string::npos) continue;
    hint = instead;
    break;
  }
  if (names_code(hint)) {
    hint = "in a program of your own: " + hint +
           "; muster train --help lists the flags of this command";
  }
  if (hint == error.hint()) return error;
  const std::vector<std::string>& causes = error.causes();
  if (causes.empty()) return {error.kind(), error.message(), hint};
  Error made(error.kind(), causes.back(), hint);
  for (size_t i = causes.size() - 1; i > 0; --i) made = made.with_context(causes[i - 1]);
  return made.with_context(error.message());
}

}  // namespace muster::app
