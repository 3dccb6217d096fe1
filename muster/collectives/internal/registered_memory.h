// Memory that the processes of a group have mapped from each other, so that collectives read and
// write it in place. No LibTorch here. Thread safety: as PeerMemory; allocate() from the thread
// that calls find().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "muster/base/shared_memory.h"
#include "muster/collectives/internal/group_member.h"
#include "muster/collectives/internal/peer_memory.h"

namespace muster::inline v0_1::internal {

class RegisteredMemory final : public PeerMemory {
 public:
  // `first_shown_rank`: the number of rank 0 in messages.
  RegisteredMemory(int rank, GroupMembers members, int first_shown_rank);

  // Zeroed memory that the other ranks can map. Throws Unavailable when there is none.
  std::shared_ptr<std::byte> allocate(int64_t bytes);

  std::optional<BufferLocation> find(const std::byte* data, int64_t bytes) const override;
  std::byte* address(int peer, const BufferLocation& buffer) override;

 private:
  struct Segments;

  const int rank_;
  const GroupMembers members_;
  const int first_shown_rank_;
  const std::shared_ptr<Segments> segments_;
  std::map<std::pair<int, uint64_t>, SharedMemory> mapped_;  // of others, by rank and segment
};

}  // namespace muster::inline v0_1::internal
