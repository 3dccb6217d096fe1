// Collectives over memory that all ranks map, without a thread: an operation moves forward whenever
// its rank submits, asks or waits. No LibTorch here. Thread safety: submit() and allocate() from
// one thread at a time, the rest from any.
//
// Each rank has a control page that only it writes and all read: how many operations it has posted
// and completed, and what they are. Posting an operation says that its buffer holds this rank's
// values. When all have posted it, each rank sums its chunk over all buffers, in rank order, and
// writes the sum into all of them; when all have completed that, the operation is over. Buffers
// outside of allocate()d memory go through a stage in the control page, piece by piece.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/collectives/internal/control_page.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/shared_mover.h"

namespace muster::inline v0_1::internal {

class SharedEngine final : public Executor, public std::enable_shared_from_this<SharedEngine> {
 public:
  // `members` by rank; control pages are of SharedMover::control_bytes(stage_bytes).
  // `first_shown_rank`: what messages call rank 0; the others follow it.
  SharedEngine(int rank, std::vector<SharedMember> members, int64_t stage_bytes,
               std::chrono::milliseconds timeout, int first_shown_rank);

  // Zeroed memory that is reduced in place. Throws Unavailable when there is none.
  std::shared_ptr<std::byte> allocate(int64_t bytes) { return mover_.allocate(bytes); }

  Work submit(Operation operation) override;
  bool fail(const Error& error) override;
  bool idle() const override;
  // Tells the others that this rank will not come again; what is outstanding fails.
  void leave();

 private:
  struct State;
  enum class Step { kPosted, kStaging, kStaged, kSummed, kCompleting };
  enum class Counter { kPosted, kMet, kCompleted };
  struct Pending {
    Operation operation;
    std::shared_ptr<State> state;
  };

  ControlPage& page(int rank) const;
  uint64_t count(int rank, Counter counter) const;
  void advance_own(Counter counter, uint64_t value);
  void ring_others();

  void help(const State& wanted, bool block);
  void drive(const State* wanted, bool block);
  void post();
  // One step of the oldest operation; false when other ranks have to come first.
  bool step(const Operation& operation);
  void begin(const Operation& operation);
  void copy_out(const Operation& operation);
  void complete(const Operation& operation);
  bool all_at(Counter counter, uint64_t target);
  bool all_came(bool or_left) const;
  void wait_for_others(const Operation& operation);
  void check_members(const Operation& operation);
  bool declare(const Error& error);
  void finish_oldest(std::optional<Error> error);
  void finish_what_is_complete();
  void drain();
  bool gone(int peer, const Operation& operation) const;
  std::optional<Error> failure() const;
  Error left(int peer, const Operation& operation) const;
  std::string place(const Operation& operation) const;
  int shown(int rank) const { return first_shown_rank_ + rank; }

  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  const int first_shown_rank_;
  const std::vector<SharedMember> members_;
  SharedMover mover_;  // moves the data; under drive_ but for allocate() and find()

  mutable std::mutex mutex_;  // the next two, and changes of the third and fourth
  std::deque<Pending> pending_;
  std::optional<Error> failure_;
  std::atomic<bool> failed_ = false;
  std::atomic<uint64_t> sequence_ = 0;  // submitted

  std::mutex drive_;                   // the rest: one thread at a time moves operations
  const Operation* oldest_ = nullptr;  // of pending_: stays where it is while others are appended
  uint64_t posted_ = 0;
  uint64_t met_ = 0;
  Step step_ = Step::kPosted;
  Counter awaited_ = Counter::kPosted;
  uint64_t target_ = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::chrono::steady_clock::time_point checked_{};
};

}  // namespace muster::inline v0_1::internal
