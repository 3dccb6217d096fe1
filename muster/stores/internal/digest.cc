#include "muster/stores/internal/digest.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>

#include "muster/base/base64.h"

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

std::string base64url(std::string_view bytes) {
  std::string text = to_base64(bytes);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  text.resize(std::min(text.find('='), text.size()));
  return text;
}

std::string crc32c_text(uint32_t crc) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(crc >> shift);
  return to_base64(bytes);
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
