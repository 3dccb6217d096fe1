// Where replicas that are threads of one process meet outside of collectives: texts, barriers, and
// which of them failed first. Thread safety: all calls from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/plan/phase.h"
#include "muster/plan/progress_watch.h"

namespace muster::inline v0_1::distribute {

class LocalGroup {
 public:
  // How long a replica may keep the others waiting.
  using Patience = plan::Patience;
  // `first_replica` is the id of the first one here, for messages. `clock` outlives the group.
  LocalGroup(int size, const Patience& patience, int first_replica = 0,
             Clock& clock = system_clock());

  // While an Outside lives, its replica waits for something outside this group and is not stuck.
  class Outside {
   public:
    Outside(LocalGroup& group, int replica) : group_(group), replica_(replica) { set(true); }
    ~Outside() { set(false); }
    Outside(const Outside&) = delete;
    Outside& operator=(const Outside&) = delete;

   private:
    void set(bool outside) {
      const std::lock_guard lock(group_.mutex_);
      group_.watch_.set_away(replica_, outside, group_.now());
    }
    LocalGroup& group_;
    const int replica_;
  };

  // Reports the phase of the replica. While any replica builds, saves or evaluates, no replica
  // counts as stuck, except one that saves for too long.
  void report(int replica, plan::Phase phase, int64_t step);
  // Returns the texts of all replicas, when all have come. Throws the error of the first replica
  // that failed; Timeout naming a replica that is stuck; InvalidArgument if replicas come for
  // different things.
  std::vector<std::string> exchange(int replica, const std::string& what, std::string text);

  // The replica cannot continue; only the first failure counts, and ends the wait of the others.
  void fail(int replica, const Error& error);
  // The replica will not come again.
  void leave(int replica);
  // "replica 1: the loss is nan", of the kind the failure has, for the other replicas to throw.
  std::optional<Error> failure() const;
  // Called by fail(), once, without any lock held.
  void on_failure(std::function<void(const Error& error)> callback);

 private:
  double now() const { return to_seconds(clock_.now().time_since_epoch()); }
  // The error that ends the group if a replica keeps `waiting` at `what` for too long.
  Error error_of(const plan::ProgressWatch::Stuck& stuck, int waiting,
                 const std::string& what) const;

  Clock& clock_;
  const Patience patience_;
  const int first_replica_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;   // of the meeting under way
  std::string what_;                 // they meet for
  int first_ = -1;                   // the replica that came first
  plan::ProgressWatch watch_;        // by replica
  std::set<int> arrived_;            // the replicas that wait for the others
  uint64_t meeting_ = 0;             // completed
  std::vector<std::string> result_;  // of the last one
  std::optional<Error> failure_;
  std::vector<std::function<void(const Error&)>> callbacks_;
};

}  // namespace muster::inline v0_1::distribute
