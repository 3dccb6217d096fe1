#include "tests/docs/shown.h"

#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <variant>

namespace muster::docs {
namespace {

constexpr std::string_view kDots = "…";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(" \t");
  return begin == std::string::npos ? ""
                                    : line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
}

bool is_gap(const std::string& line) { return trimmed(line) == kDots; }

// A line without what is another each time.
std::string settled(const std::string& line) {
  static const struct {
    RE2 pattern;
    const char* word;
  } kVolatile[] = {
      {R"([\d.]+ examples/s +[\d.]+ steps/s)", ""},
      {R"(\d+:\d\d left)", ""},
      {R"(\d\d:\d\d:\d\d)", "TIME"},
      {R"(\d{4}-\d\d-\d\d)", "DATE"},
      {R"(, [\d.]+ s\))", ", SECONDS)"},
      {R"((127\.0\.0\.1|localhost):\d+)", "ADDRESS"},
      {R"(crc32c:[0-9a-f]+)", "DIGEST"},
      {R"(in buckets of [\d.]+ MB: a message takes [\d.]+ us, a MB \d+ us)", "BUCKETS"},
      {R"(taskset -c [\d,-]+)", "CORES"},
      {R"(\s+)", " "},
  };
  std::string text = line;
  for (const auto& [pattern, word] : kVolatile) RE2::GlobalReplace(&text, pattern, word);
  return trimmed(text);
}

// Rows of tables of times and rates: only their names are compared.
bool is_timing(const std::string& settled_line) {
  static const RE2 kTiming(
      R"(^(examples/sec|global_step/sec) .*|^(input|forward|backward|reduction|update|hooks|saving|evaluating|total) [\d.]+( [\d.]+%)?$)");
  return RE2::FullMatch(settled_line, kTiming);
}

// What is said where something takes long, which on a busy machine anything may. Returns the words
// by which such a line is known; "" of other lines.
std::string words_of_waiting(const std::string& line) {
  for (const char* words :
       {" input: the model waited ", " is waiting for ", " waits ", " ago; waiting for "}) {
    if (line.find(words) != std::string::npos) return words;
  }
  return "";
}

struct Piece {
  enum Kind { kText, kNumber, kAnything } kind = kText;
  std::string text;
};

std::vector<Piece> pieces_of(const std::string& line) {
  static const RE2 kNumber(R"(\d+(\.\d+)?([eE][-+]?\d+)?)");
  std::vector<Piece> pieces;
  std::string_view rest = line;
  while (!rest.empty()) {
    if (rest.starts_with(kDots)) {
      pieces.push_back({Piece::kAnything, std::string(kDots)});
      rest.remove_prefix(kDots.size());
      continue;
    }
    // RE2 of Debian 13 takes Abseil's view, which a std::string_view does not become by itself.
    const re2::StringPiece left(rest.data(), rest.size());
    re2::StringPiece found;
    if (kNumber.Match(left, 0, left.size(), RE2::ANCHOR_START, &found, 1)) {
      pieces.push_back({Piece::kNumber, std::string(rest.substr(0, found.size()))});
      rest.remove_prefix(found.size());
      continue;
    }
    pieces.push_back({Piece::kText, std::string(rest.substr(0, 1))});
    rest.remove_prefix(1);
  }
  return pieces;
}

bool is_whole(const std::string& number) {
  return number.find_first_of(".eE") == std::string::npos;
}

bool near(const std::string& shown, const std::string& printed, double tolerance) {
  if (is_whole(shown) && is_whole(printed)) return shown == printed;
  const double a = std::strtod(shown.c_str(), nullptr);
  const double b = std::strtod(printed.c_str(), nullptr);
  return std::abs(a - b) <= tolerance * std::max(1.0, 2 * std::max(std::abs(a), std::abs(b)));
}

// What one batch gave: on another processor one example more may be right.
bool is_one_batch(const std::string& settled_line) {
  static const RE2 kOneBatch(R"( step \d+.* loss |loss of the last step)");
  return RE2::PartialMatch(settled_line, kOneBatch);
}

// Whether the number at `index` says which task or how it ended; that holds wherever a run was
// interrupted.
bool is_name(const std::vector<Piece>& pieces, size_t index) {
  std::string before;
  for (size_t i = 0; i < index; ++i) before += pieces[i].text;
  for (const char* word : {"worker ", "[worker ", "rank ", "code "}) {
    if (before.ends_with(word)) return true;
  }
  return false;
}

class LineMatcher {
 public:
  LineMatcher(const std::string& shown, const std::string& printed, bool loose)
      : loose_(loose || is_timing(settled(shown))),
        tolerance_(is_one_batch(settled(shown)) ? 0.05 : 0.01),
        shown_(pieces_of(settled(shown))),
        printed_(pieces_of(settled(printed))) {}

  bool matches(size_t i = 0, size_t j = 0) const {
    for (; i < shown_.size(); ++i, ++j) {
      if (shown_[i].kind == Piece::kAnything) {
        for (size_t k = j; k <= printed_.size(); ++k) {
          if (matches(i + 1, k)) return true;
        }
        return false;
      }
      if (j == printed_.size() || shown_[i].kind != printed_[j].kind) return false;
      const bool any_number = loose_ && shown_[i].kind == Piece::kNumber && !is_name(shown_, i);
      if (any_number) continue;
      if (shown_[i].kind == Piece::kNumber ? !near(shown_[i].text, printed_[j].text, tolerance_)
                                           : shown_[i].text != printed_[j].text) {
        return false;
      }
    }
    return j == printed_.size();
  }

 private:
  bool loose_;
  double tolerance_;
  std::vector<Piece> shown_;
  std::vector<Piece> printed_;
};

bool says_where(const std::string& line) {
  static const RE2 kWhere("restored |stopped by |stopping |PeerLost|killed by | saved ");
  return RE2::PartialMatch(line, kWhere);
}

// Line i of `shown` depends on where the run was interrupted.
bool is_loose(const std::vector<std::string>& shown, size_t i, const CompareOptions& options) {
  if (!options.interrupted) return false;
  if (says_where(shown[i])) return true;
  // The first step after going on.
  return i > 0 && shown[i - 1].find("restored ") != std::string::npos &&
         shown[i].find(" step ") != std::string::npos;
}

// The source of a line: lines of one task and stream keep their order.
std::string source_of(const std::string& line) {
  static const RE2 kTask(R"(^\[([^\]]+)\] )");
  std::string source;
  RE2::PartialMatch(line, kTask, &source);
  if (line.find("result: ") != std::string::npos) source += " result";
  return source;
}

struct ShownLine {
  std::string text;
  bool gap = false;
  bool loose = false;
};

// How far the shown lines of one source are found among the printed ones; all of them when it is
// their number.
size_t reach(const std::vector<ShownLine>& shown, const std::vector<std::string>& printed) {
  std::vector<bool> here(printed.size() + 1, false);
  here[0] = true;
  size_t reached = 0;
  for (size_t i = 0; i < shown.size(); ++i) {
    std::vector<bool> next(printed.size() + 1, false);
    for (size_t j = 0; j <= printed.size(); ++j) {
      if (!here[j]) continue;
      if (shown[i].gap) {
        for (size_t k = j; k <= printed.size(); ++k) next[k] = true;
        break;
      }
      if (j < printed.size() && LineMatcher(shown[i].text, printed[j], shown[i].loose).matches())
        next[j + 1] = true;
    }
    here = next;
    if (std::none_of(here.begin(), here.end(), [](bool x) { return x; })) return reached;
    reached = i + 1;
  }
  return here.back() ? reached : reached - 1;
}

}  // namespace

std::vector<std::vector<std::string>> matches(const std::string& text, const std::string& pattern) {
  const RE2 expression(pattern);
  std::vector<re2::StringPiece> groups(1 + expression.NumberOfCapturingGroups());
  std::vector<std::vector<std::string>> found;
  for (size_t at = 0; expression.Match(text, at, text.size(), RE2::UNANCHORED, groups.data(),
                                       static_cast<int>(groups.size()));) {
    std::vector<std::string>& match = found.emplace_back();
    for (const auto& group : groups) match.emplace_back(group.data(), group.size());
    at = static_cast<size_t>(groups[0].data() - text.data()) + groups[0].size();
  }
  return found;
}

std::vector<Block> blocks(std::string_view document) {
  std::vector<Block> found;
  std::string before;
  size_t at = 0;
  int number = 0;
  const std::vector<std::string> lines = lines_of(document);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    ++number;
    at += line.size() + 1;
    if (!line.starts_with("```")) {
      before = line;
      continue;
    }
    const std::string language = line.substr(3);
    const std::string place = "line " + std::to_string(number);
    if (language.empty())
      throw std::invalid_argument(place + ": say what the block is: ```sh, ```text, ```cpp ...");
    Block block{.commands = language == "sh", .line = number, .begin = at};
    if (before.starts_with("<!-- ") && before.ends_with(" -->"))
      block.directive = before.substr(5, before.size() - 9);
    while (++i < lines.size() && lines[i] != "```") {
      block.text += lines[i] + "\n";
      at += lines[i].size() + 1;
      ++number;
    }
    if (i == lines.size()) throw std::invalid_argument(place + ": the block does not end");
    at += lines[i].size() + 1;
    ++number;
    before.clear();
    if (language == "sh" || language == "text") found.push_back(block);
  }
  return found;
}

std::string argument(const Block& block, std::string_view key) {
  std::string_view rest = block.directive;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find("; "), rest.size());
    if (rest.starts_with(key)) return std::string(rest.substr(key.size(), end - key.size()));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return "";
}

std::string differences(std::string_view shown, std::string_view printed,
                        const CompareOptions& options) {
  const std::vector<std::string> shown_lines = lines_of(shown);
  std::map<std::string, std::vector<ShownLine>> by_source;
  std::map<std::string, std::vector<std::string>> printed_by_source;
  bool gaps = false;
  for (const std::string& line : lines_of(printed)) {
    const std::string waiting = words_of_waiting(line);
    if (!waiting.empty() && shown.find(waiting) == std::string_view::npos) continue;
    printed_by_source[source_of(line)].push_back(line);
  }
  for (const std::string& line : shown_lines) {
    if (is_gap(line))
      gaps = true;
    else
      by_source[source_of(line)];
  }
  for (size_t i = 0; i < shown_lines.size(); ++i) {
    const bool gap = is_gap(shown_lines[i]);
    for (auto& [source, lines] : by_source) {
      if (gap || source == source_of(shown_lines[i]))
        lines.push_back({shown_lines[i], gap, is_loose(shown_lines, i, options)});
    }
  }
  const std::string both =
      "\n--- shown:\n" + std::string(shown) + "--- printed:\n" + std::string(printed);
  for (const auto& [source, lines] : by_source) {
    const std::vector<std::string>& there = printed_by_source[source];
    const size_t reached = reach(lines, there);
    if (reached < lines.size()) return "not printed, or not there: " + lines[reached].text + both;
  }
  for (const auto& [source, lines] : printed_by_source) {
    if (!gaps && !by_source.contains(source) && !lines.empty())
      return "not shown: " + lines[0] + both;
  }
  return "";
}

namespace {

// From 0 to 1: how much two lines say the same. Words count; numbers where there are no words, and
// a little.
double likeness(const std::string& shown, const std::string& printed, bool loose) {
  if (LineMatcher(shown, printed, loose).matches()) return 1;
  const auto parts = [](const std::string& line, const char* pattern) {
    std::vector<std::string> found;
    for (const auto& match : matches(settled(line), pattern)) found.push_back(match[0]);
    return found;
  };
  const auto common = [&](const char* pattern) -> std::optional<double> {
    const std::vector<std::string> a = parts(shown, pattern), b = parts(printed, pattern);
    if (a.empty() && b.empty()) return std::nullopt;
    std::vector<std::vector<int>> longest(a.size() + 1, std::vector<int>(b.size() + 1, 0));
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < b.size(); ++j) {
        longest[i + 1][j + 1] =
            a[i] == b[j] ? longest[i][j] + 1 : std::max(longest[i][j + 1], longest[i + 1][j]);
      }
    }
    return 2.0 * longest[a.size()][b.size()] / static_cast<double>(a.size() + b.size());
  };
  const std::optional<double> words = common("[A-Za-z_/:]+"), numbers = common("[0-9.]+");
  if (!words || !numbers) return 0.99 * words.value_or(numbers.value_or(1));
  return 0.94 * *words + 0.05 * *numbers;
}

// Where in `printed` the shown lines are now: in order, as alike as can be, and side by side where
// they were. A line that nothing resembles ends it: its index in `kept`.
std::variant<std::vector<size_t>, size_t> placed(const std::vector<std::string>& shown,
                                                 const std::vector<size_t>& kept,
                                                 const std::vector<std::string>& printed,
                                                 const CompareOptions& options) {
  constexpr double kNever = -1e9;
  const size_t lines = printed.size();
  const auto apart = [](size_t skipped) {
    return std::min(0.3, 0.05 * static_cast<double>(skipped));
  };
  std::vector<std::vector<double>> best(kept.size(), std::vector<double>(lines, kNever));
  std::vector<std::vector<double>> like = best;
  std::vector<std::vector<size_t>> from(kept.size(), std::vector<size_t>(lines, 0));
  for (size_t i = 0; i < kept.size(); ++i) {
    const bool beside = i == 0 ? kept[i] == 0 : kept[i] == kept[i - 1] + 1;
    for (size_t j = 0; j < lines; ++j) {
      like[i][j] = likeness(shown[kept[i]], printed[j], is_loose(shown, kept[i], options));
      if (i == 0) best[i][j] = like[i][j] - (beside ? apart(j) : 0);
      for (size_t k = 0; i > 0 && k < j; ++k) {
        const double sum = best[i - 1][k] + like[i][j] - (beside ? apart(j - k - 1) : 0);
        if (sum > best[i][j]) {
          best[i][j] = sum;
          from[i][j] = k;
        }
      }
    }
  }
  std::vector<size_t> place(kept.size());
  if (kept.empty()) return place;
  const bool to_the_end = kept.back() + 1 == shown.size();
  double most = kNever;
  for (size_t j = 0; j < lines; ++j) {
    const double sum = best.back()[j] - (to_the_end ? apart(lines - 1 - j) : 0);
    if (sum > most) {
      most = sum;
      place.back() = j;
    }
  }
  for (size_t i = kept.size(); i-- > 0;) {
    if (lines == 0 || like[i][place[i]] < 0.5) return i;
    if (i > 0) place[i - 1] = from[i][place[i]];
  }
  return place;
}

std::optional<size_t> most_alike(const std::string& line, const std::vector<std::string>& printed) {
  std::optional<size_t> best;
  double most = 0.5;
  for (size_t i = 0; i < printed.size(); ++i) {
    if (source_of(printed[i]) != source_of(line)) continue;
    const double like = likeness(line, printed[i], false);
    if (like > most) {
      most = like;
      best = i;
    }
  }
  return best;
}

}  // namespace

std::string refreshed(std::string_view shown, std::string_view printed,
                      const CompareOptions& options) {
  const std::vector<std::string> old = lines_of(shown);
  std::vector<std::string> now = lines_of(printed);
  std::vector<size_t> kept;  // lines of `old` that are not a gap
  for (size_t i = 0; i < old.size(); ++i) {
    if (!is_gap(old[i])) kept.push_back(i);
  }
  if (kept.size() == old.size()) return std::string(printed);
  // Another task, or another stream, may be ahead of where it was: its line goes after the one it
  // is shown after.
  std::vector<size_t> place;
  for (size_t tries = 0;; ++tries) {
    auto found = placed(old, kept, now, options);
    if (std::holds_alternative<std::vector<size_t>>(found)) {
      place = std::get<std::vector<size_t>>(found);
      break;
    }
    const size_t lost = std::get<size_t>(found);
    const auto at = most_alike(old[kept[lost]], now);
    const auto before = lost > 0 ? most_alike(old[kept[lost - 1]], now) : std::nullopt;
    if (!at || !before || tries == kept.size()) {
      throw std::invalid_argument("nothing that is printed resembles the line shown: " +
                                  old[kept[lost]]);
    }
    const std::string line = now[*at];
    now.erase(now.begin() + static_cast<std::ptrdiff_t>(*at));
    now.insert(now.begin() + static_cast<std::ptrdiff_t>(*before + (*at > *before ? 1 : 0)), line);
  }
  std::string text;
  size_t next = 0;  // the first line of `now` not yet dealt with
  const auto dots = [&](size_t i) {
    text += old[i].substr(0, old[i].find(kDots)) + std::string(kDots) + "\n";
  };
  for (size_t i = 0, k = 0; i < old.size(); ++i) {
    if (is_gap(old[i])) {
      const size_t until = k < kept.size() ? place[k] : now.size();
      if (until > next) dots(i);
      next = until;
      continue;
    }
    for (; next < place[k]; ++next)
      text += now[next] + "\n";  // new lines between two that are shown
    const bool inner = old[i].find(kDots) != std::string::npos &&
                       LineMatcher(old[i], now[next], is_loose(old, i, options)).matches();
    text += (inner ? old[i] : now[next]) + "\n";
    ++next;
    ++k;
  }
  for (; !is_gap(old.back()) && next < now.size(); ++next) text += now[next] + "\n";
  return text;
}

}  // namespace muster::docs
