// JSON as a flat list of tokens: what a parser of hostile requests can afford. Ten million brackets
// cost no stack, and are refused at the depth's limit. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::serve::internal {

// Nesting beyond this is refused; no array of a model has so many axes.
inline constexpr size_t kMaxDepth = 64;

enum class TokenKind : uint8_t { kNull, kBool, kInteger, kNumber, kText, kKey, kArray, kObject };

// One value, or the key in front of one.
struct Token {
  TokenKind kind = TokenKind::kNull;
  uint32_t count = 0;  // kText, kKey: bytes; kArray, kObject: values inside, each once
  union {
    bool truth;
    int64_t integer;
    double number;
    size_t at;  // kText, kKey: where it begins in the texts; kArray, kObject: the token behind it
  };
  Token() : at(0) {}
};

// The tokens of one document in the order of the text; an object is key, value, key, value.
class JsonTape {
 public:
  // Reads `text`. Throws InvalidArgument with line and column for what is no JSON (NaN and infinity
  // are none), a number that no double holds, and nesting deeper than kMaxDepth.
  static JsonTape parse(std::string_view text);

  const Token& operator[](size_t index) const { return tokens_[index]; }
  // The text of a kText or kKey.
  std::string_view text(const Token& token) const {
    return std::string_view(texts_).substr(token.at, token.count);
  }
  // The token behind the value at `index`.
  size_t behind(size_t index) const;
  // Gives "a text", "a list" and so on, for messages.
  std::string_view kind_name(size_t index) const;

 private:
  friend class TapeWriter;
  std::vector<Token> tokens_;
  std::string texts_;
};

}  // namespace muster::inline v0_1::serve::internal
