#include "muster/collectives/internal/thread_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "muster/base/strings.h"
#include "muster/collectives/internal/sum.h"
#include "muster/plan/exchange.h"

namespace muster::inline v0_1::internal {

ThreadHub::ThreadHub(int size, std::chrono::milliseconds timeout)
    : size_(size),
      timeout_(timeout),
      operations_{std::vector<Operation>(size), std::vector<Operation>(size)},
      arrived_(size, 0),
      reading_(size, false) {}

void ThreadHub::meet(int rank, const Operation& operation) {
  stop_reading(rank);
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const uint64_t target = ++arrived_[rank];
  // Whoever left while others had yet to come took its buffers along.
  if (!gone_ && std::ranges::all_of(arrived_, [&](uint64_t at) { return at >= target; })) {
    meeting_ = target;
    reading_.assign(size_, true);
    changed_.notify_all();
  }
  changed_.wait_until(lock, deadline, [&] { return meeting_ >= target || gone_.has_value(); });
  if (meeting_ >= target) return;
  const bool late = std::chrono::steady_clock::now() >= deadline;
  std::optional<Error> timeout;
  if (!gone_ || (late && gone_->kind == ErrorKind::kTimeout)) {
    std::vector<std::string> missing;
    for (int r = 0; r < size_; ++r) {
      if (arrived_[r] < target) missing.push_back(std::to_string(r));
    }
    timeout.emplace(
        ErrorKind::kTimeout,
        fmt::format("{} on rank {} of {}: rank {} did not take part within {} ms",
                    operation.describe(), rank, size_, join(missing, ", "), timeout_.count()));
    if (!gone_) gone_ = Gone{rank, timeout->kind(), timeout->message()};
    changed_.notify_all();
  }
  // The caller frees this rank's buffers next. Readers are busy copying, so this wait is short.
  changed_.wait(lock, [&] { return std::ranges::none_of(reading_, [](bool r) { return r; }); });
  if (timeout) throw *timeout;
  if (gone_->rank == rank) {
    throw Error(gone_->kind, fmt::format("{} on rank {} of {} was aborted: {}",
                                         operation.describe(), rank, size_, gone_->reason));
  }
  throw Error(ErrorKind::kPeerLost,
              fmt::format("{} on rank {} of {}: rank {} left the group: {}", operation.describe(),
                          rank, size_, gone_->rank, gone_->reason));
}

void ThreadHub::stop_reading(int rank) {
  const std::lock_guard lock(mutex_);
  if (!reading_[rank]) return;
  reading_[rank] = false;
  changed_.notify_all();
}

void ThreadHub::execute(int rank, const Operation& operation) {
  const struct Reading {
    ThreadHub& hub;
    int rank;
    ~Reading() { hub.stop_reading(rank); }
  } reading{*this, rank};
  std::vector<Operation>& all = operations_[operation.sequence % 2];
  all[rank] = operation;  // read by others only after the next meeting
  all[rank].owner.reset();
  meet(rank, operation);
  for (int r = 0; r < size_; ++r) {
    if (!operation.matches(all[r])) throw mismatch(rank, operation, r, all[r]);
  }
  switch (operation.kind) {
    case OperationKind::kAllReduce: {
      const int64_t width = size_of(operation.type);
      const plan::Range mine = plan::chunk_of(operation.count, size_, rank);
      std::vector<const std::byte*> inputs(size_);
      for (int r = 0; r < size_; ++r) inputs[r] = all[r].data + mine.begin * width;
      // In place: this chunk of this rank's buffer is read by nobody else until the next meeting.
      sum_in_rank_order(operation.type, operation.data + mine.begin * width, inputs, mine.size());
      meet(rank, operation);
      for (int r = 0; r < size_; ++r) {
        const plan::Range part = plan::chunk_of(operation.count, size_, r);
        if (r == rank || part.size() == 0) continue;
        std::memcpy(operation.data + part.begin * width, all[r].data + part.begin * width,
                    part.size() * width);
      }
      break;
    }
    case OperationKind::kBroadcast:
      if (rank != operation.root && operation.count > 0) {
        std::memcpy(operation.data, all[operation.root].data, operation.bytes());
      }
      break;
    case OperationKind::kAllGather:
      for (int r = 0; r < size_ && operation.count > 0; ++r) {
        std::memmove(operation.out + r * operation.bytes(), all[r].data, operation.bytes());
      }
      break;
    case OperationKind::kReduceScatter: {
      std::vector<const std::byte*> inputs(size_);
      for (int r = 0; r < size_; ++r) inputs[r] = all[r].data + rank * operation.bytes();
      sum_in_rank_order(operation.type, operation.out, inputs, operation.count);
      break;
    }
    case OperationKind::kBarrier:
      return;  // nobody reads a buffer: one meeting is enough
  }
  meet(rank, operation);
}

void ThreadHub::abort(int rank, ErrorKind kind, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!gone_) gone_ = Gone{rank, kind, reason};
  changed_.notify_all();
}

void ThreadHub::leave(int rank, const Error* error) {
  const std::lock_guard lock(mutex_);
  if (!gone_) {
    gone_ = Gone{rank, error == nullptr ? ErrorKind::kCancelled : error->kind(),
                 error == nullptr ? "its communicator was closed" : error->message()};
  }
  changed_.notify_all();
}

}  // namespace muster::inline v0_1::internal
