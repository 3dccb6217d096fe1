#include "muster/collectives/internal/shared_mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include "muster/base/error.h"
#include "muster/collectives/internal/sum.h"
#include "muster/plan/exchange.h"

namespace muster::inline v0_1::internal {

// Memory of this rank that others can map. Outlives the mover when its tensors do.
struct SharedMover::Registry {
  struct Segment {
    uint64_t id = 0;
    int64_t bytes = 0;
  };
  std::mutex mutex;
  std::map<const std::byte*, Segment> segments;  // by begin
  uint64_t last_id = 0;

  // The segment all of [data, data + bytes) is in, and where.
  std::optional<std::pair<uint64_t, int64_t>> find(const std::byte* data, int64_t bytes) {
    const std::lock_guard lock(mutex);
    auto after = segments.upper_bound(data);
    if (after == segments.begin()) return std::nullopt;
    const auto& [begin, segment] = *--after;
    if (data + bytes > begin + segment.bytes) return std::nullopt;
    return std::pair(segment.id, data - begin);
  }
};

int64_t SharedMover::control_bytes(int64_t stage_bytes) {
  return static_cast<int64_t>(sizeof(ControlPage)) + 2 * stage_bytes;
}

SharedMover::SharedMover(int rank, const std::vector<SharedMember>& members, int64_t stage_bytes,
                         int first_shown_rank)
    : rank_(rank),
      size_(static_cast<int>(members.size())),
      stage_bytes_(stage_bytes),
      first_shown_rank_(first_shown_rank),
      members_(members),
      registry_(std::make_shared<Registry>()) {}

// Two take turns: a rank that fills one may find others still reading what was before.
std::byte* SharedMover::stage(int rank) const {
  return members_[static_cast<size_t>(rank)].control.data() + sizeof(ControlPage) +
         pieces_ % 2 * stage_bytes_;
}

std::optional<std::pair<uint64_t, int64_t>> SharedMover::find(const std::byte* data,
                                                              int64_t bytes) const {
  return registry_->find(data, bytes);
}

void SharedMover::begin_pieces() {
  done_bytes_ = 0;
  pieces_ = 0;
}

std::shared_ptr<std::byte> SharedMover::allocate(int64_t bytes) {
  auto memory = std::make_shared<SharedMemory>(SharedMemory::create(bytes));
  std::byte* const data = memory->data();
  uint64_t id = 0;
  {
    const std::lock_guard lock(registry_->mutex);
    id = ++registry_->last_id;
  }
  bool sent = true;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const Parcel parcel{.rank = rank_, .token = {}, .id = id, .bytes = bytes, .file = {}};
    sent &= send_parcel(members_[static_cast<size_t>(r)].socket, parcel, memory->file());
  }
  // Memory that a rank could not be told of works like any other, through the stages.
  if (sent) {
    const std::lock_guard lock(registry_->mutex);
    registry_->segments[data] = {.id = id, .bytes = bytes};
  }
  return {data, [registry = registry_, memory = std::move(memory)](std::byte* begin) mutable {
            {
              const std::lock_guard lock(registry->mutex);
              registry->segments.erase(begin);
            }
            memory.reset();
          }};
}

void SharedMover::execute_in_place(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  std::vector<std::byte*>& buffers = buffers_;
  buffers.assign(static_cast<size_t>(size_), operation.data);
  for (int r = 0; r < size_; ++r) {
    const bool needed = operation.kind != OperationKind::kBroadcast || r == operation.root;
    if (r != rank_ && needed) buffers[static_cast<size_t>(r)] = peer_memory(r, operation);
  }
  switch (operation.kind) {
    case OperationKind::kAllReduce: {
      const plan::Range mine = plan::chunk_of(operation.count, size_, rank_);
      for (std::byte*& buffer : buffers) buffer += mine.begin * width;
      sum_everywhere(operation.type, buffers, mine.size());
      break;
    }
    case OperationKind::kReduceScatter: {
      std::vector<const std::byte*> inputs;
      for (const std::byte* buffer : buffers) inputs.push_back(buffer + rank_ * operation.bytes());
      sum_in_rank_order(operation.type, operation.out, inputs, operation.count);
      break;
    }
    case OperationKind::kBroadcast:
      if (rank_ != operation.root) {
        std::memcpy(operation.data, buffers[static_cast<size_t>(operation.root)],
                    static_cast<size_t>(operation.bytes()));
      }
      break;
    case OperationKind::kAllGather:
      for (int r = 0; r < size_; ++r) {
        std::memmove(operation.out + r * operation.bytes(), buffers[static_cast<size_t>(r)],
                     static_cast<size_t>(operation.bytes()));
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
}

// Of a reduce_scatter, every rank's part goes through the stage at once.
int64_t SharedMover::piece_bytes(const Operation& operation) const {
  const bool shared = operation.kind == OperationKind::kReduceScatter;
  const int64_t room = shared ? stage_bytes_ / size_ / 64 * 64 : stage_bytes_;
  return std::min(room, operation.bytes() - done_bytes_);
}

void SharedMover::copy_in(const Operation& operation) {
  if (operation.kind == OperationKind::kBroadcast && operation.root != rank_) return;
  const int64_t bytes = piece_bytes(operation);
  const int parts = operation.kind == OperationKind::kReduceScatter ? size_ : 1;
  for (int part = 0; part < parts; ++part) {
    std::memcpy(stage(rank_) + part * bytes,
                operation.data + part * operation.bytes() + done_bytes_,
                static_cast<size_t>(bytes));
  }
}

// This rank's chunk of the piece, into its own stage: nobody else reads it there yet.
void SharedMover::sum_stages(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  const plan::Range mine = plan::chunk_of(piece_bytes(operation) / width, size_, rank_);
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < size_; ++r) inputs.push_back(stage(r) + mine.begin * width);
  sum_in_rank_order(operation.type, stage(rank_) + mine.begin * width, inputs, mine.size());
}

bool SharedMover::copy_out(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  const int64_t bytes = piece_bytes(operation);
  if (operation.kind == OperationKind::kReduceScatter) {
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < size_; ++r) inputs.push_back(stage(r) + rank_ * bytes);
    sum_in_rank_order(operation.type, operation.out + done_bytes_, inputs, bytes / width);
  }
  for (int r = 0; r < size_; ++r) {
    if (operation.kind == OperationKind::kAllReduce) {
      const plan::Range part = plan::chunk_of(bytes / width, size_, r);
      std::memcpy(operation.data + done_bytes_ + part.begin * width, stage(r) + part.begin * width,
                  static_cast<size_t>(part.size() * width));
    } else if (operation.kind == OperationKind::kAllGather) {
      std::memcpy(operation.out + r * operation.bytes() + done_bytes_, stage(r),
                  static_cast<size_t>(bytes));
    } else if (operation.kind == OperationKind::kBroadcast && r == operation.root && r != rank_) {
      std::memcpy(operation.data + done_bytes_, stage(r), static_cast<size_t>(bytes));
    }
  }
  done_bytes_ += bytes;
  ++pieces_;
  return done_bytes_ == operation.bytes();
}

std::byte* SharedMover::peer_memory(int peer, const Operation& operation) {
  const SharedMember& member = members_[static_cast<size_t>(peer)];
  const Posted& posted = member.posted(operation);
  const auto key = std::pair(peer, posted.segment);
  // A rank sends its memory before it posts an operation on it.
  for (auto found = mapped_.find(key);; found = mapped_.find(key)) {
    if (found != mapped_.end()) return found->second.data() + posted.offset;
    auto parcel = receive_parcel(member.socket, std::chrono::milliseconds(0));
    if (!parcel) {
      throw internal_error(fmt::format("{} on rank {} of {}: rank {} did not send its memory {}",
                                       operation.describe(), first_shown_rank_ + rank_, size_,
                                       first_shown_rank_ + peer, posted.segment));
    }
    SharedMemory memory = SharedMemory::map(std::move(parcel->file), parcel->bytes);
    memory.close_file();
    mapped_[{peer, parcel->id}] = std::move(memory);
  }
}

}  // namespace muster::inline v0_1::internal
