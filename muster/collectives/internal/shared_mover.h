// What collectives over shared memory do with the data, once all ranks have posted an operation:
// in place where all buffers lie in memory that everybody maps, else through stages, piece by
// piece. Who waits for whom is the engine's part. No LibTorch here. Thread safety: allocate() and
// find() from one thread at a time, beside the rest; that by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/collectives/internal/control_page.h"
#include "muster/collectives/internal/operation.h"

namespace muster::inline v0_1::internal {

class SharedMover {
 public:
  // The memory that a member's control page takes, with two stages of `stage_bytes`.
  static int64_t control_bytes(int64_t stage_bytes);

  // `members` by rank; they outlive it. `first_shown_rank`: what messages call rank 0.
  SharedMover(int rank, const std::vector<SharedMember>& members, int64_t stage_bytes,
              int first_shown_rank);

  // Zeroed memory that is reduced in place. Throws Unavailable when there is none.
  std::shared_ptr<std::byte> allocate(int64_t bytes);
  // The segment of allocate()d memory that all of [data, data + bytes) is in, and where; nothing
  // when the others cannot map it.
  std::optional<std::pair<uint64_t, int64_t>> find(const std::byte* data, int64_t bytes) const;

  // This rank's part of the operation, all buffers of which were found by their ranks.
  void execute_in_place(const Operation& operation);

  // Or, for each piece: copy_in(), then of an all_reduce sum_stages(), then copy_out(), with all
  // ranks meeting in between.
  void begin_pieces();
  void copy_in(const Operation& operation);
  void sum_stages(const Operation& operation);
  // True when this was the last piece.
  bool copy_out(const Operation& operation);

 private:
  struct Registry;

  std::byte* stage(int rank) const;
  int64_t piece_bytes(const Operation& operation) const;
  std::byte* peer_memory(int peer, const Operation& operation);

  const int rank_;
  const int size_;
  const int64_t stage_bytes_;
  const int first_shown_rank_;
  const std::vector<SharedMember>& members_;
  const std::shared_ptr<Registry> registry_;
  int64_t done_bytes_ = 0;  // of the running operation, when it goes through the stage
  int64_t pieces_ = 0;      // in which it did so
  std::map<std::pair<int, uint64_t>, SharedMemory> mapped_;  // by rank and segment
  std::vector<std::byte*> buffers_;                          // of the running operation, by rank
};

}  // namespace muster::inline v0_1::internal
