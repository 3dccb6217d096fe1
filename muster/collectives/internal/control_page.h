// What a rank tells the others of its host: how far it is, and in what. No LibTorch here.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "muster/collectives/internal/doorbell.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/peer_memory.h"

namespace muster::inline v0_1::internal {

inline constexpr uint64_t kSlots = 64;  // operations a rank may post ahead
inline constexpr size_t kReasonBytes = 3000;

// An operation as the other ranks see it.
struct PostedOperation {
  uint64_t sequence = 0;
  int64_t count = 0;
  BufferLocation buffer;
  int32_t root = 0;
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
};

// How far a rank is; each number only grows.
enum class Counter {
  kPosted,     // operations it has posted
  kMet,        // steps between two pieces of an operation that it has come to
  kCompleted,  // operations it has done its part of
};

// Its rank writes it and all others read it. Only the doorbell is written by all. It begins as
// zeroed memory.
struct alignas(64) ControlPage {
  std::array<std::atomic<uint64_t>, 3> counters;  // by Counter
  std::atomic<uint32_t> in_buffers;               // 1 while it reads or writes others' buffers
  alignas(64) Doorbell doorbell;
  alignas(64) std::atomic<uint32_t> gone;  // 1 after the rank has left; what follows says why
  int32_t kind;                            // an ErrorKind
  uint32_t reason_bytes;
  char reason[kReasonBytes];
  alignas(64) std::array<PostedOperation, kSlots> slots;  // operation k is in slot k % kSlots

  uint64_t count(Counter counter) const {
    return counters[static_cast<size_t>(counter)].load(std::memory_order_acquire);
  }
  void set_count(Counter counter, uint64_t value) {
    counters[static_cast<size_t>(counter)].store(value, std::memory_order_release);
  }
  // Written by the rank before it counts the operation as posted.
  PostedOperation& slot_of(const Operation& operation) {
    return slots[operation.sequence % kSlots];
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace muster::inline v0_1::internal
