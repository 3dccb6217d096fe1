// What a rank tells those it shares memory with: how far it is, and in what. No LibTorch here.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/shared_memory.h"

namespace muster::inline v0_1::internal {

inline constexpr uint64_t kSlots = 64;  // operations a rank may post ahead
inline constexpr size_t kReasonBytes = 3000;

// An operation as the other ranks see it.
struct Posted {
  uint64_t sequence = 0;
  int64_t count = 0;
  uint64_t segment = 0;  // of `offset`; 0: not in shared memory
  int64_t offset = 0;
  int32_t root = 0;
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
};

// Written by its rank, apart from the bell.
struct alignas(64) ControlPage {
  std::array<std::atomic<uint64_t>, 3> counters;  // by Counter
  alignas(64) std::atomic<uint32_t> bell;         // rung for a rank that sleeps
  std::atomic<uint32_t> sleeping;
  alignas(64) std::atomic<uint32_t> gone;  // what follows says why
  int32_t kind;
  uint32_t reason_bytes;
  char reason[kReasonBytes];
  alignas(64) std::array<Posted, kSlots> slots;  // operation k is in slot k % kSlots
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// What a rank needs to know of another; of itself, only the control page is used.
struct SharedMember {
  FileDescriptor socket;
  SharedMemory control;  // a ControlPage, and two stages behind it

  // New memory is zeroed, which is what a page's atomics begin with.
  ControlPage& page() const { return *reinterpret_cast<ControlPage*>(control.data()); }
  const Posted& posted(const Operation& operation) const {
    return page().slots[operation.sequence % kSlots];
  }
};

}  // namespace muster::inline v0_1::internal
