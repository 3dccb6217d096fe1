// Protobuf's wire format, read in place: every length is checked against the bytes there are, and
// nothing is copied, allocated or thrown. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::formats::internal {

// How a field's value is written.
enum class WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  // with their length in front
  kGroupBegin = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

// A field's number and type, which precede it.
struct WireTag {
  uint32_t field = 0;
  WireType type = WireType::kVarint;
  bool is(uint32_t number, WireType wanted) const { return field == number && type == wanted; }
};

// Reads a message from front to back. A call that returns false found damage; the reader is then at
// the damaged place.
class WireReader {
 public:
  WireReader() = default;
  explicit WireReader(Bytes bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }
  const std::byte* position() const { return at_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  Bytes rest() const { return {at_, left()}; }

  bool varint(uint64_t* value) {
    if (at_ < end_ && std::to_integer<uint8_t>(*at_) < 0x80) [[likely]] {
      *value = std::to_integer<uint64_t>(*at_++);
      return true;
    }
    return long_varint(value);
  }

  bool tag(WireTag* tag) {
    uint64_t word;
    if (!varint(&word) || word > UINT32_MAX) return false;
    *tag = {static_cast<uint32_t>(word >> 3), static_cast<WireType>(word & 7)};
    return tag->field != 0;
  }

  // A length and the bytes after it.
  bool bytes(Bytes* value) {
    uint64_t length;
    if (!varint(&length) || length > left()) return false;
    *value = {at_, static_cast<size_t>(length)};
    at_ += length;
    return true;
  }
  bool message(WireReader* value) {
    Bytes body;
    if (!bytes(&body)) return false;
    *value = WireReader(body);
    return true;
  }

  template <typename Number>
  bool fixed(Number* value) {
    if (left() < sizeof(Number)) return false;
    *value = load_little_endian<Number>(at_);
    at_ += sizeof(Number);
    return true;
  }

  // Skips the value after `tag`.
  bool skip(WireTag tag) {
    uint64_t depth = 0;  // of groups that are open
    while (true) {
      uint64_t number;
      Bytes body;
      switch (tag.type) {
        case WireType::kVarint:
          if (!varint(&number)) return false;
          break;
        case WireType::kFixed64:
          if (left() < 8) return false;
          at_ += 8;
          break;
        case WireType::kBytes:
          if (!bytes(&body)) return false;
          break;
        case WireType::kFixed32:
          if (left() < 4) return false;
          at_ += 4;
          break;
        case WireType::kGroupBegin:
          ++depth;
          break;
        case WireType::kGroupEnd:
          if (depth == 0) return false;
          --depth;
          break;
        default:
          return false;
      }
      if (depth == 0) return true;
      if (!this->tag(&tag)) return false;
    }
  }

 private:
  bool long_varint(uint64_t* value) {
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) return false;
      const auto byte = std::to_integer<uint64_t>(*at_++);
      result |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        *value = result;
        // The tenth byte holds only one bit of the value.
        return shift < 63 || byte <= 1;
      }
    }
    return false;
  }

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
};

inline void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

inline void append_tag(std::string& out, WireTag tag) {
  append_varint(out, (uint64_t{tag.field} << 3) | static_cast<uint32_t>(tag.type));
}

// Appends a field of bytes, with their length in front.
inline void append_field(std::string& out, uint32_t field, std::string_view body) {
  append_tag(out, {field, WireType::kBytes});
  append_varint(out, body.size());
  out += body;
}

}  // namespace muster::inline v0_1::formats::internal
