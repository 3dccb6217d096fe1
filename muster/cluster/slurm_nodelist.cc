#include "muster/cluster/slurm_nodelist.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "muster/base/error.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster {
namespace {

constexpr size_t kMostNames = 1'000'000;
// More digits than any list has, and few enough for a number of 64 bits.
constexpr size_t kMostDigits = 18;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string padded(uint64_t number, size_t width) { return fmt::format("{:0{}}", number, width); }

// Reads a list from left to right.
class NodelistReader {
 public:
  explicit NodelistReader(std::string_view text) : text_(text) {}

  std::vector<std::string> read() {
    std::vector<std::string> all;
    do {
      std::vector<std::string> names = name();
      if (all.size() + names.size() > kMostNames) fail("more than a million names");
      all.insert(all.end(), names.begin(), names.end());
    } while (take(','));
    if (at_ < text_.size()) fail("a closing bracket that was not opened");
    return all;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw invalid_argument(
        fmt::format("the list of nodes \"{}\" has {} at character {}", text_, what, at_ + 1),
        "Slurm writes such lists as in node[01-03,7],login2");
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::vector<std::string> name() {
    const size_t begin = at_;
    std::vector<std::string> names{""};
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']') {
      names = times(names, take('[') ? bracket() : std::vector<std::string>{plain()});
    }
    if (at_ == begin) fail("an empty name");
    return names;
  }

  std::string plain() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(",[]").find(text_[at_]) == std::string_view::npos)
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::vector<std::string> bracket() {
    std::vector<std::string> numbers;
    do {
      range(numbers);
    } while (take(','));
    if (!take(']')) fail("a bracket without its end");
    return numbers;
  }

  void range(std::vector<std::string>& numbers) {
    const std::string_view first = digits();
    const std::string_view last = take('-') ? digits() : first;
    const uint64_t begin = std::stoull(std::string(first)), end = std::stoull(std::string(last));
    if (end < begin) fail("a range that ends before it begins");
    if (end - begin >= kMostNames - std::min(kMostNames - 1, numbers.size()))
      fail("more than a million names");
    for (uint64_t i = begin; i <= end; ++i) numbers.push_back(padded(i, first.size()));
  }

  std::string_view digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    if (at_ == begin) fail("no number where one belongs");
    if (at_ - begin > kMostDigits) fail("a number that is too long");
    return text_.substr(begin, at_ - begin);
  }

  std::vector<std::string> times(const std::vector<std::string>& left,
                                 const std::vector<std::string>& right) const {
    if (left.size() > kMostNames / std::max<size_t>(right.size(), 1))
      fail("more than a million names");
    std::vector<std::string> all;
    for (const std::string& a : left)
      for (const std::string& b : right) all.push_back(a + b);
    return all;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// A name split into the number at its end and the part before it.
struct Numbered {
  std::string prefix;
  std::string digits;  // "" without a number
};

Numbered numbered(const std::string& name) {
  size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1]) && name.size() - begin < kMostDigits) --begin;
  return {name.substr(0, begin), name.substr(begin)};
}

// Whether `next` follows `last` in a range that begins with `width` digits.
bool follows(const std::string& last, const std::string& next, size_t width) {
  return !last.empty() && next == padded(std::stoull(last) + 1, width);
}

}  // namespace

std::vector<std::string> expand_nodelist(std::string_view list) {
  return NodelistReader(trim(list)).read();
}

std::string compress_nodelist(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < names.size();) {
    const Numbered head = numbered(names[i]);
    if (head.digits.empty()) {
      parts.push_back(names[i++]);
      continue;
    }
    std::vector<std::string> ranges;
    while (i < names.size() && !numbered(names[i]).digits.empty() &&
           numbered(names[i]).prefix == head.prefix) {
      const std::string first = numbered(names[i++]).digits;
      std::string last = first;
      while (i < names.size() && numbered(names[i]).prefix == head.prefix &&
             follows(last, numbered(names[i]).digits, first.size()))
        last = numbered(names[i++]).digits;
      ranges.push_back(first == last ? first : first + "-" + last);
    }
    const bool single = ranges.size() == 1 && ranges.front().find('-') == std::string::npos;
    parts.push_back(single ? head.prefix + ranges.front()
                           : fmt::format("{}[{}]", head.prefix, join(ranges, ",")));
  }
  return join(parts, ",");
}

std::vector<int> expand_tasks_per_node(std::string_view text) {
  const auto fail = [&] {
    return invalid_argument(fmt::format("\"{}\" does not say how many tasks each node has", text),
                            "Slurm writes it as in 2(x3),1");
  };
  const auto number = [&](std::string_view digits, int64_t least) {
    const std::optional<int64_t> value = parse_int(digits);
    if (!value || *value < least || *value > static_cast<int64_t>(kMostNames)) throw fail();
    return static_cast<int>(*value);
  };
  std::vector<int> all;
  for (std::string_view part : split(trim(text), ',')) {
    const size_t times = part.find("(x");
    int repeat = 1;
    if (times != std::string_view::npos) {
      if (part.back() != ')') throw fail();
      repeat = number(part.substr(times + 2, part.size() - times - 3), 1);
      part = part.substr(0, times);
    }
    if (all.size() + static_cast<size_t>(repeat) > kMostNames) throw fail();
    all.insert(all.end(), static_cast<size_t>(repeat), number(part, 0));
  }
  return all;
}

}  // namespace muster::inline v0_1::cluster
