#include "muster/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

constexpr int kMaxDepth = 200;

// Returns the text around `offset` on one line, cut to some width, with a mark after the part that
// was read.
std::string excerpt(std::string_view text, size_t offset) {
  constexpr size_t kWidth = 30;
  const size_t begin = offset > kWidth ? offset - kWidth : 0;
  const size_t end = std::min(text.size(), offset + kWidth);
  // On one line; half of a character that was cut is written as numbers.
  const auto piece = [&](size_t from, size_t to) {
    std::string part(text.substr(from, to - from));
    std::ranges::replace_if(
        part, [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
    return printable(part);
  };
  std::string shown = begin > 0 ? "..." : "";
  const size_t here = std::min(offset, end);
  shown += piece(begin, here);
  shown += here < end ? " <-- here --> " + piece(here, end) : " <-- here";
  if (end < text.size()) shown += "...";
  return shown;
}

// Takes the reason out of nlohmann's "[json.exception...] parse error at line 1, column 2: syntax
// error while ... - reason; last read", or "[json.exception...] number overflow ...".
std::string reason_of(std::string reason) {
  if (const size_t mark = reason.find(" - "); mark != std::string::npos) {
    reason.erase(0, mark + 3);
  } else if (const size_t bracket = reason.find("] "); bracket != std::string::npos) {
    reason.erase(0, bracket + 2);
  }
  for (char& letter : reason) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte >= 0x7f) letter = '?';
  }
  return reason;
}

// Checks a text before a tree is made of it, so that a refused text takes no memory. (A callback of
// nlohmann's own parser would look through all of a list after each object in it.)
class JsonCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(int64_t /*value*/) override { return true; }
  bool number_unsigned(uint64_t /*value*/) override { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return true; }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*size*/) override {
    keys_.emplace_back();
    return enter();
  }
  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    fault_ = fmt::format("has the key '{}' twice in one object", name);
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(size_t /*size*/) override { return enter(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    position_ = position;
    reason_ = reason_of(error.what());
    return false;
  }

  // The fault of a text that may be JSON; "" if it is not JSON: then where, and why.
  const std::string& fault() const { return fault_; }
  size_t position() const { return position_; }
  const std::string& reason() const { return reason_; }

 private:
  bool enter() {
    if (++depth_ <= kMaxDepth) return true;
    fault_ = fmt::format("is nested deeper than {} levels", kMaxDepth);
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of the objects that are open
  int depth_ = 0;
  std::string fault_;
  size_t position_ = 0;
  std::string reason_;
};

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view what, ErrorKind kind) {
  JsonCheck check;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &check)) {
    return nlohmann::json::parse(text.begin(), text.end());
  }
  if (!check.fault().empty()) return Error(kind, fmt::format("{} {}", what, check.fault()));
  if (trim(text).empty()) return Error(kind, fmt::format("{} is empty, JSON was expected", what));
  // The position counts the bytes that were read, with the wrong one.
  const size_t offset = std::min(check.position() > 0 ? check.position() - 1 : 0, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return Error(
      kind, fmt::format("{} is not valid JSON at line {}, column {}: {}; the text there: {}", what,
                        line, offset - start + 1, check.reason(), excerpt(text, offset)));
}

}  // namespace muster::inline v0_1
