#include "tests/house/prose.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "muster/files/regular_expression.h"

namespace muster::house {
namespace {

namespace fs = std::filesystem;

struct Word {
  RegularExpression pattern;
  const char* instead;
};

// In all texts. Patterns are searched for in one line.
const std::vector<Word>& words() {
  static const std::vector<Word> kWords = {
      {RegularExpression(R"(\bbehind\b)"),
       "'after' for time and order; the name of the place for a place"},
      {RegularExpression(R"(\b[Ww]ho(so)?ever\b)"),
       "the task, the program or the caller that does it"},
      {RegularExpression(R"(\b(as|not) (said|told) (there|here)\b)"),
       "the documented range, or its place"},
      {RegularExpression(R"(\ball the same([.,;:]|$))"), "'still', or nothing"},
      {RegularExpression(R"(\bbut for\b)"), "'except'"},
      {RegularExpression(R"(\blet(s|ting)? go\b)"), "'release'"},
      {RegularExpression(R"(\bno more than\b)"), "'at most'"},
      {RegularExpression(R"(\bso many\b)"), "'this many', or the number"},
      {RegularExpression(R"(\bbeside\b)"), "'next to', 'with' or 'compared with'"},
      {RegularExpression(R"(\b[Ss]omebody\b|\b[Nn]obody\b)"),
       "the one that is meant: a task, a program, a user"},
      {RegularExpression(R"(\b([Ss]trangers?|[Ee]rrands?|[Cc]ouriers?)\b)"),
       "'unauthenticated peer', 'asynchronous send', 'sender thread'"},
      {RegularExpression(R"(\bgo(es)? on (with|at|from|behind|until|training)\b)"), "'continues'"},
      {RegularExpression(R"(\bwhat (is|was|are|were) (not )?there\b)"), "the noun"},
  };
  return kWords;
}

// At the beginning of a comment or of a help text, where they make fragments.
const std::vector<Word>& beginnings() {
  static const std::vector<Word> kBeginnings = {
      {RegularExpression(R"(^Who [a-z]+ [^?]*$)"),
       "a named subject: 'Ctrl-C and SIGTERM request this'"},
      {RegularExpression(R"(^Whose\b[^?]*$)"), "a sentence or a noun: 'Google Cloud project'"},
      {RegularExpression(R"(^(Of (the|a|an|its|each|one|this|what)|Those of|That of) )"),
       "a sentence or a noun: 'The activation of the classifier'"},
      {RegularExpression(R"(^So (many|often|much|long) )"),
       "'How many ...' or 'The number of ...'"},
  };
  return kBeginnings;
}

// What may stay: the same words with another sense.
const std::vector<RegularExpression>& allowed() {
  static const std::vector<RegularExpression> kAllowed = {
      RegularExpression(
          R"(\b(leave|leaves|leaving|left|fall|falls|lag|lags)( [^ ]+){0,3} behind\b)"),
      RegularExpression(
          R"(\bbehind (a|an|the) (proxy|firewall|load balancer|router|interface|service)\b)"),
      RegularExpression(R"(\bbehind (HTTP|URIs)\b)"),
  };
  return kAllowed;
}

void compare(const Word& word, const std::string& line, const std::string& file, int number,
             std::vector<Finding>* found) {
  RegularExpression::Groups match;
  if (!word.pattern.search(line, &match)) return;
  for (const RegularExpression& sense : allowed()) {
    if (match[0] == "behind" && sense.search(line)) return;
  }
  found->push_back({file, number, "'" + match[0] + "': write " + word.instead});
}

// `begins`: whether the line begins a comment or a text.
void check_line(const std::string& line, bool begins, const std::string& file, int number,
                std::vector<Finding>* found) {
  for (const Word& word : words()) compare(word, line, file, number, found);
  if (!begins) return;
  for (const Word& word : beginnings()) compare(word, line, file, number, found);
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The line without what stands in backquotes and without the targets of links.
std::string without_quotations(const std::string& line) {
  std::string text;
  bool quoted = false, target = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '`') {
      quoted = !quoted;
    } else if (!quoted && line[i] == ']' && i + 1 < line.size() && line[i + 1] == '(') {
      target = true;
    } else if (target && line[i] == ')') {
      target = false;
    } else if (!quoted && !target) {
      text += line[i];
    }
  }
  return text;
}

void check_markdown(const fs::path& path, const std::string& name, std::vector<Finding>* found) {
  bool code = false;
  int number = 0;
  for (const std::string& line : lines_of(path)) {
    ++number;
    if (line.starts_with("```")) code = !code;
    if (code || line.starts_with("<!--")) continue;
    check_line(without_quotations(line), false, name, number, found);
  }
}

void check_comments(const fs::path& path, const std::string& name, std::vector<Finding>* found) {
  bool continues = false;
  int number = 0;
  for (const std::string& line : lines_of(path)) {
    ++number;
    const size_t at = line.find("// ");
    if (at == std::string::npos) {
      continues = false;
      continue;
    }
    const bool alone = line.find_first_not_of(' ') == at;
    check_line(line.substr(at + 3), !(alone && continues), name, number, found);
    continues = alone;
  }
}

// The texts of a source: what stands between quotes, joined where one literal follows another.
// Those of muster/ may begin with what another text ends with.
void check_texts(const fs::path& path, const std::string& name, std::vector<Finding>* found) {
  const bool whole = name.starts_with("apps/") || name.starts_with("muster/command/") ||
                     name.starts_with("muster/program/");
  int number = 0;
  bool continues = false;  // the line above ends with a literal
  for (const std::string& line : lines_of(path)) {
    ++number;
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.compare(first, 2, "//") == 0) continue;
    bool begins = !(continues && first != std::string::npos && line[first] == '"');
    std::string text;
    bool quoted = false;
    continues = false;
    for (size_t i = first; i < line.size(); ++i) {
      const char c = line[i];
      if (quoted && c == '\\') {
        ++i;
        continue;
      }
      if (c == '"') {
        if (quoted) check_line(text, std::exchange(begins, true) && whole, name, number, found);
        quoted = !quoted;
        continues = !quoted;
        text.clear();
      } else if (quoted) {
        text += c;
      } else if (c != ' ') {
        continues = false;
      }
    }
  }
}

bool is_prose(const std::string& name) {
  return name.ends_with(".md") && name != "docs/style.md" && name != "CHANGELOG.md";
}

bool has_texts(const std::string& name) {
  const bool source = name.ends_with(".cc") || name.ends_with(".h");
  return source && !name.ends_with("_test.cc") && !name.ends_with("_fuzz.cc") &&
         name.find("/testing/") == std::string::npos;
}

}  // namespace

std::vector<Finding> check_prose(const std::string& root) {
  std::vector<Finding> found;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.is_regular_file()) names.insert(entry.path().filename().string());
  }
  for (const char* folder : {"docs", "apps", "muster"}) {
    const fs::path start = fs::path(root) / folder;
    if (!fs::is_directory(start)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(start)) {
      if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), root).string());
    }
  }
  for (const std::string& name : names) {
    const fs::path path = fs::path(root) / name;
    if (is_prose(name)) check_markdown(path, name, &found);
    if (has_texts(name)) check_texts(path, name, &found);
  }
  for (const std::string& name : lines_of(fs::path(root) / "cmake/face/headers.txt"))
    check_comments(fs::path(root) / name, name, &found);
  return found;
}

}  // namespace muster::house
