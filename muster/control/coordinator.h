// The coordinator's side of every call: plan's state machine with a clock and a lock around it.
// Requests may come from any network, a simulated one too. Thread-safe.
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
#include "muster/net/coordinator_handler.h"
#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::control {

class Coordinator : public net::CoordinatorHandler {
 public:
  // How a group is led.
  struct Options {
    plan::CoordinatorOptions group{};  // first_epoch 0 means: from the date, so that a chief that
                                       // restarts leads a group with a higher epoch
    double poll_limit = 5;  // seconds a waiting call is held at most before it answers "not yet"
    double look_interval = 0.1;  // seconds between looks whether the peer of a call hung up: this
                                 // bounds how fast a killed task is noticed
  };
  // Throws InvalidArgument for bad options. `clock` outlives the coordinator.
  explicit Coordinator(Options options, Clock& clock = system_clock());

  net::Reply join(const net::JoinRequest& request, const net::Call& call) override;
  net::Reply beat(const net::BeatRequest& request) override;
  net::Reply declare_model(const net::ModelRequest& request) override;
  net::Reply barrier(const net::BarrierRequest& request, const net::Call& call) override;
  net::Reply store(const net::StoreRequest& request, const net::Call& call) override;
  net::Reply fail(const net::FailRequest& request) override;
  net::Reply goodbye(const net::GoodbyeRequest& request) override;
  void watch(const net::WatchRequest& request, const net::Call& call,
             const std::function<bool(const net::Reply&)>& send) override;

  // Finds lost and stuck members now and then, until end(). A thread of the owner stays here.
  void tick_until_ended();
  // Ends tick_until_ended() and all waiting calls.
  void end();

  std::optional<plan::Failure> first_failure() const;
  // As CoordinatorState has it.
  bool all_know_of_start_failure() const;
  // How many members have their long-lived connection open.
  int connections() const;
  // How many tasks wait for the next group while the present one runs, in an elastic run.
  int64_t newcomers() const;
  // Waits until every member has said goodbye or is lost, at most `goodbye_timeout`; answers
  // whether all have.
  bool wait_until_drained(double goodbye_timeout);

 private:
  double now() const { return to_seconds(clock_.now().time_since_epoch()); }
  // Wakes all threads that wait for a change of the state. The lock is held.
  void note_change();
  // Waits for a change, until `deadline`, a look interval or the end of the call.
  void wait_for_change(std::unique_lock<std::mutex>& lock, TimePoint deadline,
                       const std::function<bool()>& cancelled);
  // The same for what `done` says of the state.
  void wait_for(std::unique_lock<std::mutex>& lock, TimePoint deadline,
                const std::function<bool()>& cancelled, const std::function<bool()>& done);
  // Asks `decide` under the lock until it has an answer, the peer hangs up or has waited long
  // enough.
  net::Reply poll(const net::Call& call, double wait_seconds,
                  const std::function<plan::Verdict()>& decide);
  net::Reply wait_for_keys(const net::StoreRequest& request, const net::Call& call);
  // Of those without a connection: which processes are known to have ended.
  void look_for_ended();
  // The end of this process is no news: it says itself that it goes.
  void forget_joining(const plan::Caller& who);

  const Options options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // whatever a waiting call may wait for
  uint64_t changes_ = 0;
  plan::CoordinatorState state_;
  std::vector<net::WatchRequest> disconnected_;      // and may come back
  std::map<std::string, net::JoinRequest> joining_;  // by task: had no connection yet
  bool ending_ = false;
};

}  // namespace muster::inline v0_1::control
