// The ledger of a run as its first parameter server keeps it: answers the tasks, lets them wait
// within limits, and notices who is silent. Thread safety: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/net/server_messages.h"
#include "muster/plan/membership.h"
#include "muster/plan/step_ledger.h"

namespace muster::inline v0_1::ps {

class LedgerHost {
 public:
  struct Options {
    plan::StepLedger::Options ledger{};
    std::vector<std::string> tasks{};  // "chief", "worker 0": by rank, as messages name them
    double heartbeat_timeout = 6;
    Clock* clock = &system_clock();
    double look = 0.05;  // seconds between two looks at what comes with time alone
  };
  explicit LedgerHost(Options options);

  // The caller: a process of a worker, or a server (-1), and the generation it assumes.
  struct Asker {
    int rank = -1;
    uint64_t incarnation = 0;
    int64_t generation = 0;
  };
  // Each answers one request; it may wait for as long as the request says, a few seconds. Throws
  // what the asker is to be told.
  net::ledger::Joined answer(const Asker& who, const net::ledger::Join& join);
  net::Done answer(const Asker& who, const net::ledger::Begin& begin);
  net::ledger::Claimed answer(const Asker& who, const net::ledger::Claim& claim);
  net::ledger::Committed answer(const Asker& who, const net::ledger::Commit& commit);
  net::Done answer(const Asker& who, const net::ledger::Abandon&);
  net::Done answer(const Asker& who, const net::ledger::EndInput&);
  net::Done answer(const Asker& who, const net::ledger::Stop& stop);
  net::Done answer(const Asker& who, const net::ledger::LetGo&);
  net::ledger::Standing answer(const Asker& who, const net::ledger::Settled& settled);
  net::ledger::Present answer(const Asker& who, const net::ledger::Others& others);
  net::ledger::Cut answer(const Asker& who, const net::ledger::Pause&);
  net::Truth answer(const Asker& who, const net::ledger::Resume&);
  net::ledger::Measured answer(const Asker& who, const net::ledger::Measures&);
  net::ledger::Place answer(const Asker& who, const net::ledger::Status&);
  net::ledger::Resolved answer(const Asker& who, const net::ledger::Resolve& resolve);
  net::ledger::Beaten answer(const Asker& who, const net::ledger::Beat& beat);
  net::Done answer(const Asker& who, const net::ledger::Fail& failed);
  net::Done answer(const Asker& who, const net::ledger::Finish& finish);
  net::Done answer(const Asker& who, const net::ledger::Part&);
  net::Done answer(const Asker& who, const net::ledger::Bye&);
  net::ledger::Wanted answer(const Asker& who, const net::ledger::WantSave& wanted);
  // The last update that several workers made together; nothing without one.
  std::optional<plan::StepLedger::Round> last_round() const;
  // Whether this step of a worker counts.
  bool committed(int rank, int64_t ticket);
  // The process `incarnation` of the worker is gone.
  void leave(int rank, uint64_t incarnation);
  // The run has failed, as everybody who asks is told.
  void fail(const Error& error);
  std::optional<Error> failure() const;

  // The chief has ended the run.
  bool finished() const;
  // Waits until every worker that came has said goodbye or is gone, within this many seconds.
  void wait_for_goodbyes(double seconds);
  // Looks who is silent, as Membership::find_lost().
  void look();
  // Ends all waits.
  void close();

 private:
  double now() const { return to_seconds(options_.clock->now().time_since_epoch()); }
  const std::string& task(int rank) const;
  plan::Caller caller(const Asker& who) const { return {task(who.rank), who.incarnation}; }
  // Whether this process of its task takes part: what an earlier one left behind does not speak for
  // one that came later.
  bool is_here(const Asker& who) const { return members_.is_here(caller(who)); }
  // Held during one answer; waiting threads check again after it.
  struct Lock : std::unique_lock<std::mutex> {
    explicit Lock(LedgerHost& of) : unique_lock(of.mutex_), host(of) {}
    Lock(Lock&&) = default;
    ~Lock() { host.changed_.notify_all(); }
    LedgerHost& host;
  };
  // Takes the lock for an answer of a run that has not failed; the asker was heard of.
  Lock enter(const Asker& who);
  // The same for who must be in the run's generation; and for who must take part as well.
  Lock enter_run(const Asker& who);
  Lock enter_part(const Asker& who);
  void check_failure() const;
  void check_generation(const Asker& who) const;
  // What is said of the others where one is gone; nothing where there are none.
  const char* others_go_on() const { return members_.here() > 0 ? "; the others continue" : ""; }
  // The worker is gone, and delays no other worker.
  void release(const std::string& task);
  void release_lost(const plan::Failure& lost);
  Error taken_for_lost(int rank) const;
  // Waits for a change until `ready` holds, for this many seconds at most.
  void wait(Lock& lock, double seconds, const std::function<bool()>& ready);
  std::optional<plan::StepLedger::Round> round() const;
  std::vector<std::string> names(const std::vector<int>& ranks) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  plan::StepLedger ledger_;
  plan::Membership members_;  // by the names of Options::tasks
  std::optional<Error> failure_;
  int64_t rows_ = 0;     // examples of all steps that counted
  bool let_go_ = false;  // the chief has saved for the last time
  bool finished_ = false;
  int64_t finished_at_ = 0;        // the step of the run then, as the chief said
  std::optional<int64_t> wanted_;  // the most commits that a server waits for that has to stop
  // As the chief has said since: that it does not save; the commits that its last checkpoint holds.
  bool refused_ = false;
  std::optional<int64_t> saved_;
  bool closed_ = false;
};

}  // namespace muster::inline v0_1::ps
