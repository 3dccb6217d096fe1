// A task's end of the coordinator: joins the group, beats, meets the others at barriers, shares
// keys, reports and learns of failures. Thread-safe. Every wait is bounded: it ends with its
// result, at its deadline, or with PeerLost naming the task whose failure ended the group. A
// time-out of nothing means: for as long as the others live and make progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/control/join_options.h"
#include "muster/plan/failure.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::control {

using plan::Failure;
using plan::Phase;

// What a survivor throws: PeerLost, with the failure's description as message. When the failure is
// the model of this or another task (InvalidArgument), it keeps that kind: restarting does not
// help.
Error to_error(const Failure& failure);

class CoordinatorClient {
 public:
  // Returns when every task of the group has joined (an observer: when the coordinator is there).
  // Logs who is missing. Throws Timeout naming them at the deadline, InvalidArgument when the tasks
  // do not agree on the cluster or another process has this task's name.
  static std::unique_ptr<CoordinatorClient> join(JoinOptions options);
  // close()
  ~CoordinatorClient();
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  int64_t epoch() const;
  const JoinOptions& options() const;

  // Notes where this task is; the next heartbeat says so. Costs a lock.
  void report(Phase phase, int64_t step);
  // One line per variable, "name shape dtype". Throws InvalidArgument naming both tasks and the
  // variables when the models of the group differ; every task learns of it.
  void declare_model(const std::vector<std::string>& signature);
  // Meets all others of the group. Every task passes the same barriers in the same order; a name
  // may be used again. The phase is `waiting` meanwhile, and the log says now and then who is
  // missing. Throws Timeout naming them, Cancelled when this task was told to stop.
  void barrier(const std::string& name, std::optional<double> timeout_seconds = std::nullopt);
  // The barrier after the last step. A task that was told to stop waits for the others here, since
  // they come by themselves: for stop_timeout seconds.
  void last_barrier();

  // --- keys of the group; values are bytes ---
  // Replaces what was there. Throws PeerLost when the group has failed, as all of these do.
  void set(const std::string& key, const std::string& value);
  // Waits for the key. Throws Timeout naming it.
  std::string get(const std::string& key, std::optional<double> timeout_seconds = std::nullopt);
  // Adds to a decimal counter (absent counts as 0) and returns the sum.
  int64_t add(const std::string& key, int64_t amount);
  // True when there was something to erase.
  bool erase(const std::string& key);
  // Whether all are there now.
  bool check(const std::vector<std::string>& keys);

  // --- failure and end ---
  // Tells the group that this task cannot go on. Best effort, within about 2 s; never throws.
  void fail(ErrorKind kind, const std::string& reason);
  // Tells the coordinator that this task lost its connection to another one. It finds out whether
  // that one is lost, and fails the group. Best effort, within about 2 s; never throws.
  void report_lost_connection(const std::string& reason);
  // The group's first failure as far as this task knows, also its own.
  std::optional<Failure> first_failure() const;
  // Throws to_error(first_failure()) when there is one.
  void check_failure() const;
  // `callback` is called once, from a thread of the client, when another task failed, this one was
  // declared lost, or the coordinator is gone; soon after this call when that has happened already.
  // Do not close or destroy the client inside.
  void on_failure(std::function<void(const Failure&)> callback);
  // This task has finished its work. It keeps answering until close().
  void done();
  // Whether every member reported done.
  bool all_done() const;
  // Says goodbye and ends the client's threads; waits in progress end with Cancelled. Closing
  // before done() fails the group. `for_good`: this task will not join again. Idempotent.
  void close(bool for_good = false);

 private:
  struct Impl;
  explicit CoordinatorClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::control
