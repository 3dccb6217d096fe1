#include "muster/collectives/internal/registered_memory.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>

#include "muster/base/error.h"
#include "muster/collectives/internal/unix_socket.h"

namespace muster::inline v0_1::internal {

// Memory of this rank. Tensors of it may outlive the communicator.
struct RegisteredMemory::Segments {
  struct Segment {
    uint64_t id = 0;
    int64_t bytes = 0;
  };
  std::mutex mutex;
  std::map<const std::byte*, Segment> by_begin;
  uint64_t last_id = 0;
};

RegisteredMemory::RegisteredMemory(int rank, GroupMembers members, int first_shown_rank)
    : rank_(rank),
      members_(std::move(members)),
      first_shown_rank_(first_shown_rank),
      segments_(std::make_shared<Segments>()) {}

std::shared_ptr<std::byte> RegisteredMemory::allocate(int64_t bytes) {
  auto memory = std::make_shared<SharedMemory>(SharedMemory::create(bytes));
  std::byte* const data = memory->data();
  uint64_t id = 0;
  {
    const std::lock_guard lock(segments_->mutex);
    id = ++segments_->last_id;
  }
  bool sent = true;
  for (const GroupMember& member : *members_) {
    if (!member.socket.is_open()) continue;  // this rank
    const MemoryHandle handle{.rank = rank_, .token = {}, .id = id, .bytes = bytes, .file = {}};
    sent &= send_handle(member.socket, handle, memory->file());
  }
  // Memory whose segment could not be sent to a rank works like any other, through the staging
  // buffers.
  if (sent) {
    const std::lock_guard lock(segments_->mutex);
    segments_->by_begin[data] = {.id = id, .bytes = bytes};
  }
  return {data, [segments = segments_, memory = std::move(memory)](std::byte* begin) mutable {
            {
              const std::lock_guard lock(segments->mutex);
              segments->by_begin.erase(begin);
            }
            memory.reset();
          }};
}

std::optional<BufferLocation> RegisteredMemory::find(const std::byte* data, int64_t bytes) const {
  const std::lock_guard lock(segments_->mutex);
  auto after = segments_->by_begin.upper_bound(data);
  if (after == segments_->by_begin.begin()) return std::nullopt;
  const auto& [begin, segment] = *--after;
  if (data + bytes > begin + segment.bytes) return std::nullopt;
  return BufferLocation{.segment = segment.id, .offset = data - begin};
}

std::byte* RegisteredMemory::address(int peer, const BufferLocation& buffer) {
  const auto key = std::pair(peer, buffer.segment);
  // A rank sends its memory before it posts an operation on it.
  for (auto found = mapped_.find(key);; found = mapped_.find(key)) {
    if (found != mapped_.end()) return found->second.data() + buffer.offset;
    auto handle =
        receive_handle((*members_)[static_cast<size_t>(peer)].socket, std::chrono::milliseconds(0));
    if (!handle) {
      throw internal_error(fmt::format("rank {} did not send its memory {} to rank {}",
                                       first_shown_rank_ + peer, buffer.segment,
                                       first_shown_rank_ + rank_));
    }
    SharedMemory memory = SharedMemory::map(std::move(handle->file), handle->bytes);
    memory.close_file();
    mapped_[{peer, handle->id}] = std::move(memory);
  }
}

}  // namespace muster::inline v0_1::internal
