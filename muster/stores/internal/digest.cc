#include "muster/stores/internal/digest.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>

namespace muster::inline v0_1::stores::internal {

std::string sha256(Bytes bytes) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char letter : bytes) {
    const auto byte = static_cast<unsigned char>(letter);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string base64(std::string_view bytes) {
  // OpenSSL writes a zero behind the text.
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int count = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                    reinterpret_cast<const unsigned char*>(bytes.data()),
                                    static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(count));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > INT32_MAX) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  const int count = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                    reinterpret_cast<const unsigned char*>(text.data()),
                                    static_cast<int>(text.size()));
  if (count < 0) return std::nullopt;
  const auto padding = static_cast<size_t>(std::ranges::count(text, '='));
  if (padding > 2) return std::nullopt;
  bytes.resize(static_cast<size_t>(count) - padding);
  return bytes;
}

std::string base64url(std::string_view bytes) {
  std::string text = base64(bytes);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  text.resize(std::min(text.find('='), text.size()));
  return text;
}

std::string crc32c_text(uint32_t crc) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(crc >> shift);
  return base64(bytes);
}

Md5::Md5() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr);
}

void Md5::add(Bytes bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

std::string Md5::finish() {
  std::string digest(16, '\0');
  EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return digest;
}

std::string md5(Bytes bytes) {
  Md5 digest;
  digest.add(bytes);
  return digest.finish();
}

}  // namespace muster::inline v0_1::stores::internal
