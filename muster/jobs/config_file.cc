#include "muster/jobs/config_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "muster/base/json.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr size_t kMostBytes = 1 << 20;
// An alias may stand for a large part, and for parts that hold aliases themselves.
constexpr int kMostValues = 20'000;
constexpr int kMostDepth = 64;
constexpr int kMostDocuments = 100;

ConfigPlace place_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

// The line of the file without its end.
std::string_view line_of(std::string_view text, int line) {
  for (int at = 1; at < line; ++at) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  return text.ends_with('\r') ? text.substr(0, text.size() - 1) : text;
}

// A part of the line around a byte of it, for messages: JSON of programs is mostly one line.
struct LinePart {
  std::string_view text{};
  size_t begin{};  // where it begins in the line
};
LinePart part_of(std::string_view line, size_t at) {
  constexpr size_t kMost = 120, kBefore = 60;
  if (line.size() <= kMost) return {line, 0};
  // Letters of UTF-8 stay whole.
  const auto whole = [&](size_t place) {
    while (place > 0 && place < line.size() &&
           (static_cast<unsigned char>(line[place]) & 0xc0) == 0x80) {
      --place;
    }
    return place;
  };
  const size_t begin = whole(std::min(at, line.size()) - std::min({at, line.size(), kBefore}));
  return {line.substr(begin, whole(std::min(line.size(), begin + kMost)) - begin), begin};
}

// A copy of the YAML library's tree that knows its paths.
class TreeMaker {
 public:
  explicit TreeMaker(const ConfigFile& file) : file_(file) {}

  ConfigValue make(const YAML::Node& node, const std::string& path, int depth = 0) {
    ConfigValue value{.path = path, .place = place_of(node.Mark())};
    if (++values_ > kMostValues || depth > kMostDepth) {
      throw file_.error(value.place,
                        fmt::format("the file has more than {}",
                                    depth > kMostDepth ? "64 levels" : "20,000 values"),
                        "look for an alias (*name) that stands for a part which holds it");
    }
    if (node.IsScalar()) {
      value.kind = ConfigValue::Kind::kScalar;
      value.text = node.Scalar();
      if (value.text.find('\0') != std::string::npos) {
        throw file_.error(value.place, "the text has a byte of zero",
                          "no argument and no variable of a process can have one: take it away");
      }
    } else if (node.IsSequence()) {
      value.kind = ConfigValue::Kind::kList;
      for (const YAML::Node& item : node) {
        value.items.push_back(
            make(item, fmt::format("{}[{}]", path, value.items.size()), depth + 1));
      }
    } else if (node.IsMap()) {
      value.kind = ConfigValue::Kind::kMap;
      for (const auto& member : node) add_member(value, member.first, member.second, depth);
    }
    return value;
  }

 private:
  void add_member(ConfigValue& map, const YAML::Node& key, const YAML::Node& item, int depth) {
    const ConfigPlace place = place_of(key.Mark());
    if (!key.IsScalar())
      throw file_.error(place, "a key is not text", "write a name before the ':'");
    const std::string& name = key.Scalar();
    const auto before = std::ranges::find(map.members, name, &ConfigMember::key);
    if (before != map.members.end()) {
      throw file_.error(place,
                        fmt::format("{} is set here and in line {}", name, before->place.line),
                        "keep one of the two");
    }
    ConfigValue value = make(item, map.path.empty() ? name : map.path + "." + name, depth + 1);
    // An empty value has no place of its own.
    if (value.kind == ConfigValue::Kind::kNull) value.place = place;
    map.members.push_back({name, place, std::move(value)});
  }

  const ConfigFile& file_;
  int values_ = 0;
};

// Looks at all documents, and keeps none. Of some damaged texts (", a") YAML::LoadAll() makes
// documents without end, and of two bytes of a list hundreds: here both are errors of the text.
class DocumentCounter final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > kMostDocuments)
      throw YAML::ParserException(mark, fmt::format("more than {} documents", kMostDocuments));
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { count(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { count(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    count(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    count(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    count(mark);
  }
  void OnMapEnd() override {}

 private:
  // Keys are counted here, and their values.
  void count(const YAML::Mark& mark) {
    constexpr int kMost = 2 * kMostValues;
    if (++values_ > kMost)
      throw YAML::ParserException(mark, fmt::format("more than {} keys and values", kMost));
  }

  int documents_ = 0;
  int values_ = 0;
};

// Throws for brackets within brackets, all of which the YAML library keeps before it looks at their
// depth, with 240 bytes each. Those in texts count too, where they are mostly closed.
void check_brackets(std::string_view text) {
  constexpr int kMostOpen = 1000;
  int open = 0;
  YAML::Mark mark;
  mark.line = mark.column = mark.pos = 0;
  for (const char letter : text) {
    if (letter == '[' || letter == '{') ++open;
    if ((letter == ']' || letter == '}') && open > 0) --open;
    if (open > kMostOpen)
      throw YAML::ParserException(mark, fmt::format("more than {} brackets are open", kMostOpen));
    ++mark.column;
    if (letter == '\n') {
      ++mark.line;
      mark.column = 0;
    }
  }
}

// Throws what the YAML library throws.
std::vector<YAML::Node> documents_of(const std::string& text) {
  check_brackets(text);
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter;
  while (parser.HandleNextDocument(counter)) {
  }
  return YAML::LoadAll(text);
}

int hex_value(std::string_view digits) {
  int value = 0;
  for (const char c : digits) {
    const char letter = to_lower(std::string_view(&c, 1)).front();
    if (letter >= '0' && letter <= '9') {
      value = value * 16 + (letter - '0');
    } else if (letter >= 'a' && letter <= 'f') {
      value = value * 16 + (letter - 'a' + 10);
    } else {
      return -1;
    }
  }
  return value;
}

// JSON writes a letter beyond 16 bits as two escapes, \ud83d\ude00, and YAML as one, \U0001f600.
std::string with_yaml_escapes(const std::string& text) {
  constexpr size_t kLength = 6;
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = std::string_view(text).substr(at);
    if (rest.starts_with("\\u") && rest.size() >= 2 * kLength &&
        rest.substr(kLength).starts_with("\\u")) {
      const int high = hex_value(rest.substr(2, 4)), low = hex_value(rest.substr(kLength + 2, 4));
      if (high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
        result += fmt::format("\\U{:08x}", 0x10000 + (high - 0xd800) * 0x400 + (low - 0xdc00));
        at += 2 * kLength - 1;
        continue;
      }
    }
    result += text[at];
    // What follows a backslash is not an escape of its own.
    if (text[at] == '\\' && at + 1 < text.size()) result += text[++at];
  }
  return result;
}

// Whether the bytes are those of a program, a picture and the like. Text in 16 or 32 bits, which
// the YAML library reads too, says so by its first two bytes.
bool is_binary(std::string_view text) {
  constexpr size_t kLook = 8192;
  constexpr std::string_view kOfText = "\t\n\v\f\r\x1b";
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
      text.starts_with(std::string_view("\0\0\xfe\xff", 4))) {
    return false;
  }
  return std::ranges::any_of(text.substr(0, kLook), [&](char c) {
    return static_cast<unsigned char>(c) < 0x20 && kOfText.find(c) == std::string_view::npos;
  });
}

// Whether the text was meant as JSON: its first key stands in quotes. YAML has braces too.
bool is_meant_as_json(std::string_view text) {
  const std::string_view begin = trim(text);
  if (begin.starts_with('[')) return true;
  return begin.starts_with('{') && (begin == "{" || trim(begin.substr(1)).starts_with('"'));
}

}  // namespace

std::string ConfigValue::shown() const {
  switch (kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return fmt::format("'{}'", printable_beginning(text));
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map of keys";
  }
  return "?";
}

Error ConfigFile::error(ConfigPlace place, const std::string& message,
                        const std::string& hint) const {
  std::string shown = fmt::format("{}:{}:{}: {}", name, place.line, place.column, message);
  const size_t at = static_cast<size_t>(std::max(place.column, 1)) - 1;
  const auto [line, begin] = part_of(line_of(text, place.line), at);
  if (!trim(line).empty()) {
    const std::string number = fmt::format("{:>5} | ", place.line);
    std::string below(number.size() - 2, ' ');
    below += "| ";
    // A tab below a tab, so that the caret stands below its letter.
    for (size_t i = begin; i < at; ++i) {
      below += i - begin < line.size() && line[i - begin] == '\t' ? '\t' : ' ';
    }
    shown += fmt::format("\n{}{}\n{}^", number, printable(line), below);
  }
  return invalid_argument(shown, hint);
}

bool ConfigFile::is_spoken_of(const std::string& path) const {
  return std::ranges::any_of(*mistakes, [&](const Mistake& mistake) {
    return std::ranges::find(mistake.about, path) != mistake.about.end();
  });
}

void ConfigFile::note(Mistake mistake) const {
  const auto spoken = [this](const std::string& path) { return is_spoken_of(path); };
  if (std::ranges::none_of(mistake.about, spoken)) mistakes->push_back(std::move(mistake));
}

void ConfigFile::throw_noted() const {
  if (mistakes->empty()) return;
  std::vector<Mistake> sorted = *mistakes;
  std::ranges::stable_sort(sorted, {}, [](const Mistake& mistake) {
    return std::pair(mistake.place.line, mistake.place.column);
  });
  constexpr size_t kMostShown = 20;
  std::string all;
  const size_t last = std::min(sorted.size(), kMostShown) - 1;
  for (size_t i = 0; i < last; ++i) {
    const Error one = error(sorted[i].place, sorted[i].message, sorted[i].hint);
    all += one.message() + "\n";
    if (!one.hint().empty()) all += "hint: " + one.hint() + "\n";
    all += "error: ";
  }
  const Error end = error(sorted[last].place, sorted[last].message, sorted[last].hint);
  all += end.message();
  if (sorted.size() > kMostShown)
    all += fmt::format("\nand {} more mistakes", sorted.size() - kMostShown);
  throw invalid_argument(all, end.hint());
}

ConfigFile parse_config_file(std::string text, std::string name) {
  if (is_binary(text)) {
    throw invalid_argument(fmt::format("{} is not text", name),
                           "name a job's configuration, YAML or JSON; the program follows the "
                           "flags: muster submit --config=FILE PROGRAM");
  }
  if (text.size() > kMostBytes) {
    throw invalid_argument(fmt::format("{} has {}", name, human_bytes(text.size())),
                           "a job's configuration has at most 1 MiB; is this another file?");
  }
  ConfigFile file{.name = std::move(name), .text = std::move(text), .documents = {}};
  std::vector<YAML::Node> nodes;
  try {
    nodes =
        documents_of(trim(file.text).starts_with('{') ? with_yaml_escapes(file.text) : file.text);
  } catch (const YAML::Exception& error) {
    if (is_meant_as_json(file.text)) {
      if (const auto json = parse_json(file.text, file.name); !json.ok()) {
        throw invalid_argument(json.error().message(),
                               "look in front of the mark too: a comma, a quote or a bracket is "
                               "missing or too much there, or the file is cut");
      }
    }
    ConfigPlace place = place_of(error.mark);
    // What is not closed is found out after the last line.
    while (place.line > 1 && trim(line_of(file.text, place.line)).empty()) {
      --place.line;
      place.column = static_cast<int>(line_of(file.text, place.line).size()) + 1;
    }
    throw file.error(place, fmt::format("this is neither YAML nor JSON: {}", error.msg),
                     "YAML indents with blanks, and needs a blank after each ':'");
  }
  for (const YAML::Node& node : nodes) file.documents.push_back(TreeMaker(file).make(node, ""));
  return file;
}

}  // namespace muster::inline v0_1::jobs
