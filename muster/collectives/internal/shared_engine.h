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

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/collectives/internal/operation.h"
#include "muster/collectives/internal/shared_memory.h"

namespace muster::inline v0_1::internal {

struct ControlPage;

class SharedEngine final : public Executor, public std::enable_shared_from_this<SharedEngine> {
 public:
  // What a rank needs to know of another; of itself, only the control page is used.
  struct Member {
    FileDescriptor socket;
    SharedMemory control;
  };

  // The memory that a member's control page takes, with two stages of `stage_bytes`.
  static int64_t control_bytes(int64_t stage_bytes);

  // `members` by rank; control pages are of control_bytes(stage_bytes).
  SharedEngine(int rank, std::vector<Member> members, int64_t stage_bytes,
               std::chrono::milliseconds timeout);

  // Zeroed memory that is reduced in place. Throws Unavailable when there is none.
  std::shared_ptr<std::byte> allocate(int64_t bytes);

  Work submit(Operation operation) override;
  bool fail(const Error& error) override;
  bool idle() const override;
  // Tells the others that this rank will not come again; what is outstanding fails.
  void leave();

 private:
  struct State;
  struct Registry;
  enum class Step { kPosted, kStaging, kStaged, kSummed, kCompleting };
  enum class Counter { kPosted, kMet, kCompleted };
  struct Pending {
    Operation operation;
    std::shared_ptr<State> state;
  };

  ControlPage& page(int rank) const;
  std::byte* stage(int rank) const;
  uint64_t count(int rank, Counter counter) const;
  void advance_own(Counter counter, uint64_t value);
  void ring_others();

  void help(const State& wanted, bool block);
  void drive(const State* wanted, bool block);
  void post();
  // One step of the oldest operation; false when other ranks have to come first.
  bool step(const Operation& operation);
  void begin(const Operation& operation);
  void execute_in_place(const Operation& operation);
  void copy_in(const Operation& operation);
  void sum_stages(const Operation& operation);
  void copy_out(const Operation& operation);
  int64_t piece_bytes(const Operation& operation) const;
  void complete(const Operation& operation);
  bool all_at(Counter counter, uint64_t target);
  void wait_for_others(const Operation& operation);
  void check_members(const Operation& operation);
  std::byte* peer_memory(int peer, const Operation& operation);
  bool declare(const Error& error);
  void finish_oldest(std::optional<Error> error);
  void finish_what_is_complete();
  void drain();
  bool gone(int peer, const Operation& operation) const;
  std::optional<Error> failure() const;
  Error left(int peer, const Operation& operation) const;
  std::string place(const Operation& operation) const;

  const int rank_;
  const int size_;
  const int64_t stage_bytes_;
  const std::chrono::milliseconds timeout_;
  std::vector<Member> members_;
  const std::shared_ptr<Registry> registry_;

  mutable std::mutex mutex_;  // the next three
  std::deque<Pending> pending_;
  std::optional<Error> failure_;
  uint64_t sequence_ = 0;

  std::mutex drive_;  // the rest: one thread at a time moves operations
  uint64_t posted_ = 0;
  uint64_t met_ = 0;
  Step step_ = Step::kPosted;
  int64_t done_bytes_ = 0;  // of the running operation, when it goes through the stage
  int64_t pieces_ = 0;      // in which it did so
  Counter awaited_ = Counter::kPosted;
  uint64_t target_ = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::chrono::steady_clock::time_point checked_{};
  std::map<std::pair<int, uint64_t>, SharedMemory> mapped_;  // by rank and segment
};

}  // namespace muster::inline v0_1::internal
