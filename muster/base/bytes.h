// Views of raw bytes, and fixed-width little-endian numbers in them.
// Thread safety: views and free functions; as safe as the memory they view.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace muster::inline v0_1 {

// Views of bytes that another object owns: Bytes for reading, MutableBytes for writing.
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little,
              "Muster's file formats are written for little-endian machines");

// The same memory as bytes, and as text; nothing is copied.
inline Bytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

// The same memory as text; nothing is copied.
inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads a `Number` from its little-endian bytes. REQUIRES: sizeof(Number) readable bytes at `from`.
template <typename Number>
Number load_little_endian(const void* from) {
  Number number;
  std::memcpy(&number, from, sizeof(Number));
  return number;
}

// Adds the little-endian bytes of `number` to `out`.
template <typename Number>
void append_little_endian(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(Number));
}

}  // namespace muster::inline v0_1
