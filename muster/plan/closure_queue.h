// Calls that a chief schedules on workers: which ones wait, which worker makes which, and where a
// call goes when its worker is lost. A state machine that does nothing by itself and never waits:
// `now` is in seconds, of one clock. Thread safety: one thread at a time.
//
// A call ends once: done, failed or cancelled. It may begin more often, because a call whose worker
// is lost is given to another; a later answer of the lost one does not count.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

class MUSTER_PART_EXPORT ClosureQueue {
 public:
  // The number of workers, and the limits.
  struct Options {
    int workers = 1;            // they are numbered from 0
    int64_t capacity = 262144;  // calls that have not ended
    // A call begins at most this often. Otherwise a call that kills its workers would kill all of
    // them.
    int max_attempts = 5;
  };
  // No worker is present at `now`.
  ClosureQueue(Options options, double now);

  // --- the program's side ---
  // Whether as many calls wait and run as may.
  bool full() const { return unfinished() >= options_.capacity; }
  // Puts a call at the end of the queue and returns its number: 1 for the first. REQUIRES: !full(),
  // and failure() is empty.
  int64_t schedule(std::string name);
  // Calls that have not ended.
  int64_t unfinished() const { return static_cast<int64_t>(calls_.size()); }
  // The first failure since the last take_failure(). While it is set no call begins.
  const std::optional<Error>& failure() const { return failure_; }
  // Returns and forgets it.
  std::optional<Error> take_failure();
  // Cancels closures that have not begun. Closures that have begun continue, and none begins again.
  void cancel(const Error& why);

  // kFailed: it threw, or every worker that began it was lost.
  enum class Outcome { kDone, kFailed, kCancelled };
  // How a call ended; `error` is why, unless it is done.
  struct Ended {
    int64_t call = 0;
    Outcome outcome = Outcome::kDone;
    std::optional<Error> error{};
  };
  // The closures that have ended since the last call, in the order of their ends.
  std::vector<Ended> take_ended();

  // --- the workers' side ---
  // The worker has come, or has come again: the call of its earlier process goes to another one.
  void join(int worker, double now);
  // It is gone; its call begins again elsewhere, before calls that have not begun yet.
  void leave(int worker, double now);
  // Whether it has come and is not gone.
  bool present(int worker) const { return at(worker).present; }
  // Seconds since the last worker left, or since the beginning; nothing while one is present.
  std::optional<double> without_workers(double now) const;

  // The work for a worker.
  struct Assignment {
    int64_t call = 0;
    int64_t ticket = 0;  // of this attempt; no two have the same
    int attempt = 1;     // of the call
  };
  // Gives the worker the next call; nothing if none waits, or it is not present. A worker that has
  // a call gets the same again.
  std::optional<Assignment> next(int worker);
  // The call is made. False if it is no longer this worker's: its result does not count.
  bool finish(int worker, int64_t ticket);
  // The call threw: it ends as failed, and calls that have not begun as cancelled. False as above.
  bool fail(int worker, int64_t ticket, const Error& error);

 private:
  struct Call {
    std::string name{};
    int attempts = 0;
    std::optional<Error> cancelled{};  // why it begins no more when its worker is lost
  };
  struct Worker {
    bool present = false;
    std::optional<Assignment> assignment{};
  };
  Worker& at(int worker);
  const Worker& at(int worker) const;
  void end(int64_t call, Outcome outcome, std::optional<Error> error = {});
  void note_failure(int64_t call, const Error& error);
  // The call of the worker goes back to the queue.
  void take_from(Worker& worker);

  const Options options_;
  std::vector<Worker> workers_;
  std::map<int64_t, Call> calls_;  // that have not ended
  std::deque<int64_t> waiting_;
  std::vector<Ended> ended_;
  std::optional<Error> failure_;
  std::optional<double> none_since_;
  int64_t last_call_ = 0, last_ticket_ = 0;
};

}  // namespace muster::inline v0_1::plan
