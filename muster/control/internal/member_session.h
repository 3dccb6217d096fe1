// What a task knows of its group after joining, kept fresh by two threads: one beats, one listens
// to what the coordinator pushes. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "muster/base/process_identity.h"
#include "muster/control/internal/coordinator_watch.h"
#include "muster/control/join_options.h"
#include "muster/plan/failure.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::control {

class MemberSession {
 public:
  // All outlive the session. The threads start.
  MemberSession(const JoinOptions& options, const plan::Caller& who,
                net::CoordinatorChannel& channel, const ProcessIdentity& coordinator);
  // close()
  ~MemberSession();
  MemberSession(const MemberSession&) = delete;
  MemberSession& operator=(const MemberSession&) = delete;

  // Notes where this task is; the next heartbeat says so.
  void report(plan::Phase phase, int64_t step);
  // As report(), at the same step and without haste.
  void show(plan::Phase phase);
  // Shows this task as waiting while it lives.
  class Waiting {
   public:
    explicit Waiting(MemberSession& session);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    MemberSession& session_;
    plan::Phase before_;
  };
  // A heartbeat that says where this task is now.
  net::BeatRequest beat() const;

  // The group has failed, as this task was told.
  void learn(plan::Failure news);
  // This task itself reports why it cannot go on: its callback need not hear of it. False when it
  // has left already.
  bool note_own_failure();
  std::optional<plan::Failure> first_failure() const;
  void on_failure(std::function<void(const plan::Failure&)> callback);
  // Throws what ended the group, or Cancelled after close().
  void throw_if_over() const;

  // A request had no answer: a heartbeat finds out soon whether the coordinator lives. Waits
  // meanwhile, at most this many seconds, but not when the group has failed or is left.
  void doubt(double seconds);

  // The coordinator knows that this task is done; from now on nothing is expected of it.
  void finish(bool all_done);
  bool all_done() const;
  // Says goodbye, `for_good` if this task will not join again; ends the channel and the threads.
  // Idempotent.
  void close(bool for_good = false);

 private:
  double now() const { return to_seconds(clock_.now().time_since_epoch()); }
  bool over() const { return failure_ || closing_; }
  void wake_all() { wake_.notify_all(); }
  void listen_until_closed();
  void beat_until_closed();
  void learn_locked(plan::Failure news);
  void give_up_if_lost(const CoordinatorWatch& watch, bool unreachable);
  bool must_call_back() const { return failure_ && callback_ && !called_back_; }
  void call_back_if_due(std::unique_lock<std::mutex>& lock);
  // A thread has come to its end.
  void end_thread();

  const JoinOptions& options_;
  const plan::Caller& who_;
  net::CoordinatorChannel& channel_;
  const ProcessIdentity& coordinator_;
  Clock& clock_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool closing_ = false;
  bool beat_now_ = false;
  bool finished_ = false;
  bool all_done_ = false;
  bool self_reported_ = false;
  bool called_back_ = false;
  plan::Phase phase_ = plan::Phase::kBuilding;
  int64_t step_ = -1;
  std::optional<plan::Failure> failure_;
  std::function<void(const plan::Failure&)> callback_;
  int threads_ = 2;  // that have not come to their end
  std::thread beater_, listener_;
};

}  // namespace muster::inline v0_1::control
