#include "muster/serve/internal/json_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/printable.h"

namespace muster::inline v0_1::serve::internal {

// Takes what nlohmann's parser finds. A function that returns false ends the parsing at once.
class TapeWriter : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TapeWriter(JsonTape& tape) : tape_(tape) {}

  bool null() override {
    value(TokenKind::kNull);
    return true;
  }
  bool boolean(bool truth) override {
    value(TokenKind::kBool).truth = truth;
    return true;
  }
  bool number_integer(int64_t number) override {
    value(TokenKind::kInteger).integer = number;
    return true;
  }
  bool number_unsigned(uint64_t number) override {
    // What does not fit int64 is no integer of any dtype there is.
    if (number > static_cast<uint64_t>(INT64_MAX)) {
      value(TokenKind::kNumber).number = static_cast<double>(number);
    } else {
      value(TokenKind::kInteger).integer = static_cast<int64_t>(number);
    }
    return true;
  }
  bool number_float(double number, const std::string& /*text*/) override {
    value(TokenKind::kNumber).number = number;
    return true;
  }
  bool string(std::string& text) override {
    keep(value(TokenKind::kText), text);
    return true;
  }
  bool key(std::string& text) override {
    tape_.tokens_.emplace_back().kind = TokenKind::kKey;
    keep(tape_.tokens_.back(), text);
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*bytes*/) override { return false; }
  bool start_object(size_t /*size*/) override { return open(TokenKind::kObject); }
  bool start_array(size_t /*size*/) override { return open(TokenKind::kArray); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& error) override {
    position_ = position;
    fault_ = error.what();
    return false;
  }

  bool too_deep() const { return too_deep_; }
  size_t position() const { return position_; }
  const std::string& fault() const { return fault_; }

 private:
  Token& value(TokenKind kind) {
    if (!open_.empty()) ++tape_.tokens_[open_.back()].count;
    tape_.tokens_.emplace_back().kind = kind;
    return tape_.tokens_.back();
  }
  void keep(Token& token, const std::string& text) {
    token.at = tape_.texts_.size();
    token.count = static_cast<uint32_t>(text.size());
    tape_.texts_ += text;
  }
  bool open(TokenKind kind) {
    if (open_.size() == kMaxDepth) {
      too_deep_ = true;
      return false;
    }
    value(kind);
    open_.push_back(tape_.tokens_.size() - 1);
    return true;
  }
  bool close() {
    tape_.tokens_[open_.back()].at = tape_.tokens_.size();
    open_.pop_back();
    return true;
  }

  JsonTape& tape_;
  std::vector<size_t> open_;
  bool too_deep_ = false;
  size_t position_ = 0;
  std::string fault_;
};

namespace {

// Takes the reason out of nlohmann's "[json.exception...] parse error at ...: ... - reason; last
// read: ...", and the line and column from the text itself.
Error not_json(std::string_view text, size_t position, const std::string& fault) {
  const size_t offset = std::min(position > 0 ? position - 1 : 0, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  std::string reason = fault;
  if (const size_t mark = reason.find(" - "); mark != std::string::npos) {
    reason.erase(0, mark + 3);
  } else if (const size_t bracket = reason.find("] "); bracket != std::string::npos) {
    reason.erase(0, bracket + 2);
  }
  constexpr size_t kShown = 200;
  if (reason.size() > kShown) reason = reason.substr(0, kShown) + "...";
  return invalid_argument(fmt::format(
      "the body is not valid JSON at line {}, column {}: {}; NaN and infinity are no JSON numbers",
      line, offset - start + 1, printable(reason)));
}

}  // namespace

JsonTape JsonTape::parse(std::string_view text) {
  JsonTape tape;
  TapeWriter writer(tape);
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &writer)) return tape;
  if (writer.too_deep()) {
    throw invalid_argument(fmt::format(
        "the body is nested deeper than {} levels; no input has so many axes", kMaxDepth));
  }
  if (text.empty()) throw invalid_argument("the body is empty; a JSON object was expected");
  throw not_json(text, writer.position(), writer.fault());
}

size_t JsonTape::behind(size_t index) const {
  const Token& token = tokens_[index];
  const bool holds = token.kind == TokenKind::kArray || token.kind == TokenKind::kObject;
  return holds ? token.at : index + 1;
}

std::string_view JsonTape::kind_name(size_t index) const {
  switch (tokens_[index].kind) {
    case TokenKind::kNull:
      return "null";
    case TokenKind::kBool:
      return "a bool";
    case TokenKind::kInteger:
      return "a whole number";
    case TokenKind::kNumber:
      return "a number";
    case TokenKind::kText:
    case TokenKind::kKey:
      return "a text";
    case TokenKind::kArray:
      return "a list";
    case TokenKind::kObject:
      return "an object";
  }
  return "?";
}

}  // namespace muster::inline v0_1::serve::internal
