#include "muster/collectives/internal/sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {
namespace {

// Partial sums of this many elements stay in the nearest cache.
constexpr int64_t kBlock = 1024;

// The arithmetic for elements in memory: the type to add in, and the conversions.
template <typename T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum widen(Stored value) { return value; }
  static Stored narrow(Sum value) { return value; }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum widen(Stored value) {
    return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  }
  static Stored narrow(Sum value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    // The addition would carry the payload of a NaN into its exponent.
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return static_cast<uint16_t>(nan ? 0x7fc0 : rounded >> 16);
  }
};

struct Float16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum widen(Stored value) { return static_cast<float>(std::bit_cast<_Float16>(value)); }
  static Stored narrow(Sum value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }
};

template <typename Element>
const typename Element::Stored* elements(const std::byte* data) {
  return reinterpret_cast<const typename Element::Stored*>(data);
}

// Adds a block in a place of its own: `store` may then overwrite the inputs.
template <typename Element, typename Inputs, typename Store>
void sum_blocks(const Inputs& inputs, int64_t count, Store store) {
  alignas(64) typename Element::Sum partial[kBlock];
  alignas(64) typename Element::Stored narrow[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const auto* first = elements<Element>(inputs[0]) + begin;
    for (int64_t i = 0; i < n; ++i) partial[i] = Element::widen(first[i]);
    for (size_t r = 1; r < inputs.size(); ++r) {
      const auto* in = elements<Element>(inputs[r]) + begin;
      for (int64_t i = 0; i < n; ++i) partial[i] += Element::widen(in[i]);
    }
    if constexpr (std::is_same_v<typename Element::Sum, typename Element::Stored>) {
      store(partial, begin, n);
    } else {
      for (int64_t i = 0; i < n; ++i) narrow[i] = Element::narrow(partial[i]);
      store(narrow, begin, n);
    }
  }
}

template <typename Element>
void sum(std::byte* out, std::span<const std::byte* const> inputs, int64_t count) {
  using Stored = typename Element::Stored;
  auto* const to = reinterpret_cast<Stored*>(out);
  if (inputs.size() == 2) {
    const Stored* a = elements<Element>(inputs[0]);
    const Stored* b = elements<Element>(inputs[1]);
    // The same element of `out` and one input may be the same memory: that is not a dependency
    // between iterations.
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      to[i] = Element::narrow(Element::widen(a[i]) + Element::widen(b[i]));
    }
    return;
  }
  sum_blocks<Element>(inputs, count, [&](const Stored* block, int64_t begin, int64_t n) {
    std::memcpy(to + begin, block, static_cast<size_t>(n) * sizeof(Stored));
  });
}

template <typename Element>
void sum_to_all(std::span<std::byte* const> buffers, int64_t count) {
  using Stored = typename Element::Stored;
  if (buffers.size() == 2) {
    auto* const a = reinterpret_cast<Stored*>(buffers[0]);
    auto* const b = reinterpret_cast<Stored*>(buffers[1]);
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      const Stored total = Element::narrow(Element::widen(a[i]) + Element::widen(b[i]));
      a[i] = total;
      b[i] = total;
    }
    return;
  }
  sum_blocks<Element>(buffers, count, [&](const Stored* block, int64_t begin, int64_t n) {
    for (std::byte* buffer : buffers) {
      std::memcpy(reinterpret_cast<Stored*>(buffer) + begin, block,
                  static_cast<size_t>(n) * sizeof(Stored));
    }
  });
}

// Calls `fn` with how elements of `type` are added.
template <typename Fn>
void with_element(ElementType type, Fn fn) {
  switch (type) {
    case ElementType::kFloat32:
      return fn(Plain<float>{});
    case ElementType::kFloat64:
      return fn(Plain<double>{});
    case ElementType::kInt64:
      // Sums of signed integers wrap around, on every machine alike; plain int64_t would be
      // undefined behaviour.
      return fn(Plain<uint64_t>{});
    case ElementType::kBfloat16:
      return fn(Bfloat16{});
    case ElementType::kFloat16:
      return fn(Float16{});
    case ElementType::kByte:
      break;
  }
  throw invalid_argument("raw bytes cannot be summed");
}

}  // namespace

void sum_in_rank_order(ElementType type, std::byte* out, std::span<const std::byte* const> inputs,
                       int64_t count) {
  with_element(type, [&](auto element) { sum<decltype(element)>(out, inputs, count); });
}

void sum_everywhere(ElementType type, std::span<std::byte* const> buffers, int64_t count) {
  with_element(type, [&](auto element) { sum_to_all<decltype(element)>(buffers, count); });
}

}  // namespace muster::inline v0_1::internal
