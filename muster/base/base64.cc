#include "muster/base/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace muster::inline v0_1 {

std::string to_base64(std::string_view bytes) {
  // OpenSSL writes a zero after the text.
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int count = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                    reinterpret_cast<const unsigned char*>(bytes.data()),
                                    static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(count));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > INT32_MAX) return std::nullopt;
  if (text.empty()) return "";
  // OpenSSL accepts padding and blanks in places where none are allowed.
  const size_t end = std::min(text.find('='), text.size());
  const size_t padding = text.size() - end;
  if (padding > 2 || (padding == 2 && text.back() != '=')) return std::nullopt;
  if (!std::ranges::all_of(text.substr(0, end), [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) || letter == '+' || letter == '/';
      })) {
    return std::nullopt;
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  const int count = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()));
  if (count < 0) return std::nullopt;
  bytes.resize(static_cast<size_t>(count) - padding);
  return bytes;
}

}  // namespace muster::inline v0_1
