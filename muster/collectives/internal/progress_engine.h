// Collectives between the ranks of one host, without a thread: an operation moves forward whenever
// its rank submits, asks or waits. No LibTorch here. Thread safety: submit() from one thread at a
// time, the rest from any.
//
// The ranks are processes that map each other's memory, or threads of one process. Each has a
// control page that only it writes and all read: how many operations it has posted and completed,
// and what they are. Posting an operation says that its buffer holds this rank's values. When all
// have posted it, each rank sums its chunk over all buffers, in rank order, and writes the sum into
// all of them; when all have completed that, the operation is over. A rank that waits sums the
// chunks of ranks that have not begun with theirs: the last rank to come finds the others asleep,
// and on a busy machine they may need milliseconds to get a core again. Buffers that the other
// ranks cannot reach go through staging buffers, piece by piece.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "muster/collectives/internal/executor.h"
#include "muster/collectives/internal/group_member.h"
#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/peer_memory.h"
#include "muster/collectives/internal/shared_memory_operations.h"

namespace muster::inline v0_1::internal {

class ProgressEngine final : public Executor, public std::enable_shared_from_this<ProgressEngine> {
 public:
  struct Options {
    int rank = 0;
    int64_t stage_bytes = 0;              // of each staging buffer; 0 between threads
    std::chrono::milliseconds timeout{};  // for the others to reach an operation
    int first_shown_rank = 0;             // the number of rank 0 in messages; the others follow it
  };
  // `memory` reaches the buffers of `members`; it is shared with the code that allocates from it.
  ProgressEngine(const Options& options, GroupMembers members, std::shared_ptr<PeerMemory> memory);

  Work submit(Operation operation) override;
  bool fail(const Error& error) override;
  bool idle() const override;
  // Notifies the others that this rank has left; outstanding operations fail.
  void leave();

 private:
  struct State;
  class InBuffers;
  // The event that the oldest operation waits for, or its next step.
  enum class Step { kPosts, kCopyIn, kReduce, kCopyOut, kCompletions };
  struct Pending {
    Operation operation;
    std::shared_ptr<State> state;
  };

  ControlPage& page(int rank) const { return (*members_)[static_cast<size_t>(rank)].page(); }
  void publish(Counter counter, uint64_t value);
  void wake_others(bool early);

  void progress(const State* wanted, bool block);
  bool choose_oldest();
  void post();
  void write_slot(const Operation& operation);
  bool step(const Operation& operation);
  void begin(const Operation& operation);
  std::optional<Error> difference(const Operation& operation) const;
  bool compare_posts(const Operation& operation) const;
  void copy_out(const Operation& operation);
  void complete(const Operation& operation);
  bool sum_for_others(const Operation& operation);
  void check_buffers(const Operation& operation) const;
  bool all_at(Counter counter, uint64_t target);
  bool all_came(bool or_left) const;
  bool all_completed(uint64_t sequence) const;
  uint64_t others_can_do_all_until(const State* wanted) const;
  void wait_for_others(const Operation& operation, const State* wanted);
  Error timed_out(const Operation& operation) const;
  void check_members(const Operation& operation);
  bool declare_failed(const Error& error);
  void finish_oldest(std::optional<Error> error);
  void finish_what_is_complete();
  void wait_until_out_of_buffers() const;
  void fail_outstanding();
  bool gone(int peer, const Operation& operation) const;
  bool owes(int peer, const Operation& operation) const;
  Error left(int peer, const Operation& operation) const;
  std::string place(const Operation& operation) const;
  int shown(int rank) const { return options_.first_shown_rank + rank; }

  const Options options_;
  const int size_;
  const GroupMembers members_;
  const bool between_threads_;
  const std::shared_ptr<PeerMemory> memory_;
  SharedMemoryOperations operations_;

  mutable std::mutex mutex_;  // the next two, and changes of the third and fourth
  std::deque<Pending> pending_;
  std::optional<Error> failure_;
  std::atomic<bool> failed_ = false;
  std::atomic<uint64_t> submitted_ = 0;  // operations

  std::mutex progress_;                // the rest: one thread at a time moves operations
  const Operation* oldest_ = nullptr;  // of pending_: its address is stable while others are
                                       // appended
  uint64_t posted_ = 0;
  uint64_t met_ = 0;
  Step step_ = Step::kPosts;
  Counter awaited_ = Counter::kPosted;
  uint64_t target_ = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::chrono::milliseconds nap_{};  // the next sleep of this wait
  std::chrono::steady_clock::time_point checked_{};
};

}  // namespace muster::inline v0_1::internal
