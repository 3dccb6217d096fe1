// How the ranks of one host reach each other's buffers. No LibTorch here. Thread safety: find()
// from one thread at a time; address() from one thread at a time, which may be another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace muster::inline v0_1::internal {

// A buffer in a form that means the same to all ranks.
struct BufferLocation {
  uint64_t segment = 0;  // 0: the other ranks cannot reach it
  int64_t offset = 0;
};

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  // Where the other ranks find [data, data + bytes) of this one; nothing when they cannot.
  virtual std::optional<BufferLocation> find(const std::byte* data, int64_t bytes) const = 0;
  // The address in this process of the location that find() gave rank `peer`. Throws Error.
  virtual std::byte* address(int peer, const BufferLocation& buffer) = 0;
};

// Threads of one process reach every buffer directly.
class SameProcessMemory final : public PeerMemory {
 public:
  std::optional<BufferLocation> find(const std::byte* data, int64_t /*bytes*/) const override {
    return BufferLocation{.segment = 1, .offset = reinterpret_cast<intptr_t>(data)};
  }
  std::byte* address(int /*peer*/, const BufferLocation& buffer) override {
    return reinterpret_cast<std::byte*>(static_cast<intptr_t>(buffer.offset));
  }
};

}  // namespace muster::inline v0_1::internal
