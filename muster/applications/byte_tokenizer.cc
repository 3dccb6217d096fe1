#include "muster/applications/byte_tokenizer.h"

#include <fmt/format.h>

#include <cstddef>

#include "muster/base/error.h"

namespace muster::inline v0_1::applications {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// The bytes that may follow the first byte of a character.
struct CharacterForm {
  size_t length = 0;                      // with the first byte; 0 if it begins none
  unsigned char low = 0x80, high = 0xbf;  // of the second byte
};

CharacterForm form_of(unsigned char first) {
  if (first < 0x80) return {.length = 1};
  if (first < 0xc2) return {};  // a continuation byte, or the start of an overlong form
  if (first < 0xe0) return {.length = 2};
  if (first == 0xe0) return {.length = 3, .low = 0xa0};
  if (first == 0xed) return {.length = 3, .high = 0x9f};  // no surrogates
  if (first < 0xf0) return {.length = 3};
  if (first == 0xf0) return {.length = 4, .low = 0x90};
  if (first < 0xf4) return {.length = 4};
  if (first == 0xf4) return {.length = 4, .high = 0x8f};
  return {};
}

// Returns how many bytes at the beginning of `bytes` belong to the character's form.
size_t fitting(std::string_view bytes, const CharacterForm& form) {
  size_t fits = 1;
  while (fits < form.length && fits < bytes.size()) {
    const auto byte = static_cast<unsigned char>(bytes[fits]);
    const unsigned char low = fits == 1 ? form.low : 0x80, high = fits == 1 ? form.high : 0xbf;
    if (byte < low || byte > high) break;
    ++fits;
  }
  return fits;
}

}  // namespace

std::vector<int64_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<int64_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string ByteTokenizer::decode(const std::vector<int64_t>& tokens) const {
  std::string bytes;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0) {
      throw invalid_argument(fmt::format("ByteTokenizer: the token at {} is {}", i, tokens[i]),
                             "bytes are 0 ... 255, and marks are above");
    }
    if (tokens[i] < kVocabularySize) bytes.push_back(static_cast<char>(tokens[i]));
  }
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const CharacterForm form = form_of(static_cast<unsigned char>(rest.front()));
    const size_t fits = fitting(rest, form);
    text += fits == form.length ? rest.substr(0, fits) : kReplacement;
    rest.remove_prefix(fits);
  }
  return text;
}

}  // namespace muster::inline v0_1::applications
