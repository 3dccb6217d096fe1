// Digests, and bytes as text, as cloud services want them. Thread safety: pure functions; an Md5
// belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "muster/base/bytes.h"

struct evp_md_ctx_st;

namespace muster::inline v0_1::stores::internal {

// SHA-256: 32 bytes.
std::string sha256(Bytes bytes);
// "1f8b08", without blanks.
std::string hex(std::string_view bytes);
// Base64 with the alphabet of URLs and without padding (RFC 7515).
std::string base64url(std::string_view bytes);
// The checksum as Google and Amazon write it: base64 of four bytes, the highest first.
std::string crc32c_text(uint32_t crc);

// MD5 of bytes that come one after another.
class Md5 {
 public:
  Md5();
  void add(Bytes bytes);
  // Returns the 16 bytes; no add() may follow.
  std::string finish();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};
std::string md5(Bytes bytes);

}  // namespace muster::inline v0_1::stores::internal
