// How a message begins on the wire. Thread safety: values.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace muster::inline v0_1::net {

// The first bytes of every frame, and so of every connection without TLS.
inline constexpr std::string_view kFrameMagic = "MuM1";

// In front of the head, which the payload follows. Numbers are little-endian.
struct FrameHeader {
  char magic[4];
  uint32_t head_bytes{};
  int64_t payload_bytes{};

  static FrameHeader of(size_t head_bytes, int64_t payload_bytes) {
    FrameHeader header{.magic = {},
                       .head_bytes = static_cast<uint32_t>(head_bytes),
                       .payload_bytes = payload_bytes};
    std::memcpy(header.magic, kFrameMagic.data(), sizeof header.magic);
    return header;
  }
  // Whether it is one, with a head of at most `most_head_bytes`.
  bool is_valid(size_t most_head_bytes) const {
    constexpr int64_t kMostPayload = int64_t{1} << 48;
    return std::string_view(magic, sizeof magic) == kFrameMagic && head_bytes <= most_head_bytes &&
           payload_bytes >= 0 && payload_bytes <= kMostPayload;
  }
};
static_assert(sizeof(FrameHeader) == 16);

}  // namespace muster::inline v0_1::net
