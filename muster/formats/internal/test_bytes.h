// For tests of files: bytes from hexadecimal text, and a sink that keeps the written bytes.
#pragma once

#include <string>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::formats {

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16));
  }
  return bytes;
}

class StringSink final : public ByteSink {
 public:
  Status append(Bytes bytes) override {
    content += text_of(bytes);
    return {};
  }
  std::string content;
};

}  // namespace muster::inline v0_1::formats
