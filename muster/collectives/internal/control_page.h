// The state that a rank publishes to the others of its host: its progress, and its operation. No
// LibTorch here.
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
inline constexpr uint64_t kRanks = 1 << 16;  // more than there can be on a host

// An operation as the other ranks see it.
struct PostedOperation {
  uint64_t sequence = 0;
  int64_t count = 0;
  BufferLocation buffer{};
  int32_t root = 0;
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
};

// How far a rank is; each number only grows.
enum class Counter {
  kPosted,     // operations it has posted
  kMet,        // steps between two pieces of an operation that it has come to
  kCompleted,  // operations of which its part is done
};

// Its rank writes it and all others read it. All ranks write the doorbell. For an all_reduce in
// place, the rank that sums this rank's chunk writes `claim` and then the counter kCompleted. It
// begins as zeroed memory.
struct alignas(64) ControlPage {
  std::array<std::atomic<uint64_t>, 3> counters;  // by Counter
  std::atomic<uint64_t> claim{};                  // the rank that sums this rank's chunk: see
                                                  // try_claim()
  std::atomic<uint32_t> in_buffers{};             // 1 while it reads or writes others' buffers
  alignas(64) Doorbell doorbell;
  // The event for which its rank sleeps: until all have completed this operation; 0: until anything
  // changes.
  std::atomic<uint64_t> sleeps_until{};
  alignas(64) std::atomic<uint32_t> gone;  // 1 after the rank has left; the next fields say why
  int32_t kind{};                          // an ErrorKind
  uint32_t reason_bytes{};
  char reason[kReasonBytes];
  alignas(64) std::array<PostedOperation, kSlots> slots;  // operation k is in slot k % kSlots

  uint64_t count(Counter counter) const {
    return counters[static_cast<size_t>(counter)].load(std::memory_order_acquire);
  }
  void set_count(Counter counter, uint64_t value) {
    counters[static_cast<size_t>(counter)].store(value, std::memory_order_release);
  }
  // Makes `rank` the one that sums this page's chunk of the operation; false if another rank is.
  bool try_claim(const Operation& operation, int rank) {
    const uint64_t wanted = operation.sequence * kRanks + static_cast<uint64_t>(rank);
    uint64_t there = claim.load(std::memory_order_acquire);
    while (there / kRanks < operation.sequence) {
      if (claim.compare_exchange_weak(there, wanted, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  // The rank that has claimed the chunk of the operation, or `owner` while none has.
  int claimed_by(const Operation& operation, int owner) const {
    const uint64_t there = claim.load(std::memory_order_acquire);
    return there / kRanks == operation.sequence ? static_cast<int>(there % kRanks) : owner;
  }
  // Written by the rank before it counts the operation as posted.
  PostedOperation& slot_of(const Operation& operation) {
    return slots[operation.sequence % kSlots];
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace muster::inline v0_1::internal
