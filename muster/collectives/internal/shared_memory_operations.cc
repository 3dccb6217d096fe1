#include "muster/collectives/internal/shared_memory_operations.h"

#include <algorithm>
#include <cstring>

#include "muster/collectives/internal/sum.h"
#include "muster/plan/sum_schedule.h"

namespace muster::inline v0_1::internal {

int64_t SharedMemoryOperations::control_bytes(int64_t stage_bytes) {
  return static_cast<int64_t>(sizeof(ControlPage)) + 2 * stage_bytes;
}

SharedMemoryOperations::SharedMemoryOperations(int rank, GroupMembers members, PeerMemory& memory,
                                               int64_t stage_bytes)
    : rank_(rank),
      size_(static_cast<int>(members->size())),
      members_(std::move(members)),
      memory_(memory),
      stage_bytes_(stage_bytes) {}

void SharedMemoryOperations::find_buffers(const Operation& operation) {
  buffers_.assign(static_cast<size_t>(size_), operation.data);
  for (int r = 0; r < size_; ++r) {
    const bool needed = operation.kind != OperationKind::kBroadcast || r == operation.root;
    if (r == rank_ || !needed) continue;
    const auto peer = static_cast<size_t>(r);
    buffers_[peer] = memory_.address(r, (*members_)[peer].page().slot_of(operation).buffer);
  }
}

void SharedMemoryOperations::reduce_chunk(const Operation& operation, int rank) {
  find_buffers(operation);
  const plan::Range chunk = plan::chunk_of(operation.count, size_, rank);
  for (std::byte*& buffer : buffers_) buffer += chunk.begin * size_of(operation.type);
  sum_everywhere(operation.type, buffers_, chunk.size());
}

void SharedMemoryOperations::execute_in_place(const Operation& operation) {
  if (operation.kind == OperationKind::kAllReduce) return reduce_chunk(operation, rank_);
  const int64_t bytes = operation.bytes();
  find_buffers(operation);
  switch (operation.kind) {
    case OperationKind::kReduceScatter: {
      std::vector<const std::byte*> inputs;
      for (const std::byte* buffer : buffers_) inputs.push_back(buffer + rank_ * bytes);
      sum_in_rank_order(operation.type, operation.out, inputs, operation.count);
      break;
    }
    case OperationKind::kBroadcast:
      if (rank_ != operation.root) {
        std::memcpy(operation.data, buffers_[static_cast<size_t>(operation.root)],
                    static_cast<size_t>(bytes));
      }
      break;
    case OperationKind::kAllGather:
      for (int r = 0; r < size_; ++r) {
        std::memmove(operation.out + r * bytes, buffers_[static_cast<size_t>(r)],
                     static_cast<size_t>(bytes));
      }
      break;
    case OperationKind::kAllReduce:  // above
    case OperationKind::kBarrier:
      break;
  }
}

// Two take turns, because a rank may fill one while others still read the piece before.
std::byte* SharedMemoryOperations::stage(int rank) const {
  return (*members_)[static_cast<size_t>(rank)].control.get() + sizeof(ControlPage) +
         pieces_ % 2 * stage_bytes_;
}

std::vector<const std::byte*> SharedMemoryOperations::stages(int64_t offset) const {
  std::vector<const std::byte*> all;
  for (int r = 0; r < size_; ++r) all.push_back(stage(r) + offset);
  return all;
}

// A reduce_scatter puts the parts of all ranks into the stage at once.
int64_t SharedMemoryOperations::piece_bytes(const Operation& operation) const {
  const bool shared = operation.kind == OperationKind::kReduceScatter;
  const int64_t room = shared ? stage_bytes_ / size_ / 64 * 64 : stage_bytes_;
  return std::min(room, operation.bytes() - done_bytes_);
}

void SharedMemoryOperations::begin_pieces() {
  done_bytes_ = 0;
  pieces_ = 0;
}

void SharedMemoryOperations::copy_in(const Operation& operation) {
  if (operation.kind == OperationKind::kBroadcast && operation.root != rank_) return;
  const int64_t bytes = piece_bytes(operation);
  const int parts = operation.kind == OperationKind::kReduceScatter ? size_ : 1;
  for (int part = 0; part < parts; ++part) {
    std::memcpy(stage(rank_) + part * bytes,
                operation.data + part * operation.bytes() + done_bytes_,
                static_cast<size_t>(bytes));
  }
}

// Sums this rank's chunk of the piece into its own stage, where no other rank reads that chunk yet.
void SharedMemoryOperations::reduce_stages(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  const plan::Range mine = plan::chunk_of(piece_bytes(operation) / width, size_, rank_);
  const int64_t offset = mine.begin * width;
  sum_in_rank_order(operation.type, stage(rank_) + offset, stages(offset), mine.size());
}

bool SharedMemoryOperations::copy_out(const Operation& operation) {
  const int64_t width = size_of(operation.type);
  const int64_t bytes = piece_bytes(operation);
  if (operation.kind == OperationKind::kReduceScatter) {
    sum_in_rank_order(operation.type, operation.out + done_bytes_, stages(rank_ * bytes),
                      bytes / width);
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

}  // namespace muster::inline v0_1::internal
