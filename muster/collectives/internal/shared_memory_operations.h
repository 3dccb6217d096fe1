// How the ranks of one host move the data of an operation that all of them have posted: in place if
// each reaches the others' buffers, else through staging buffers, piece by piece. The engine
// decides which rank waits for which. No LibTorch here. Thread safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/collectives/internal/group_member.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/peer_memory.h"

namespace muster::inline v0_1::internal {

class SharedMemoryOperations {
 public:
  // The bytes of a member's control memory: its page and two staging buffers of `stage_bytes`.
  static int64_t control_bytes(int64_t stage_bytes);

  // `stage_bytes` is 0 if all buffers are always in reach.
  SharedMemoryOperations(int rank, GroupMembers members, PeerMemory& memory, int64_t stage_bytes);

  // This rank's part of the operation. REQUIRES: each rank has found its buffer.
  void execute_in_place(const Operation& operation);
  // For an all_reduce in place: sums the chunk of `rank` over all buffers into all of them. Any
  // rank may do that for any other, with the same bits.
  void reduce_chunk(const Operation& operation, int rank);

  // The other way, for each piece: copy_in(), then reduce_stages() of an all_reduce, then
  // copy_out(). All ranks meet between two of these calls.
  void begin_pieces();
  void copy_in(const Operation& operation);
  void reduce_stages(const Operation& operation);
  // True when this was the last piece.
  bool copy_out(const Operation& operation);

 private:
  void find_buffers(const Operation& operation);
  std::byte* stage(int rank) const;
  int64_t piece_bytes(const Operation& operation) const;
  // By rank, `offset` bytes after the beginning of its stage.
  std::vector<const std::byte*> stages(int64_t offset) const;

  const int rank_;
  const int size_;
  const GroupMembers members_;
  PeerMemory& memory_;
  const int64_t stage_bytes_;
  int64_t done_bytes_ = 0;           // of the running operation, through the stages
  int64_t pieces_ = 0;               // in which they went
  std::vector<std::byte*> buffers_;  // of the running operation, by rank
};

}  // namespace muster::inline v0_1::internal
