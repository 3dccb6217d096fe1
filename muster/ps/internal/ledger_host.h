// The ledger of a run as its first parameter server keeps it: answers the tasks, lets them wait
// within limits, and notices who is silent. Thread safety: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/plan/phase.h"
#include "muster/plan/step_ledger.h"

namespace muster::inline v0_1::ps {

class LedgerHost {
 public:
  struct Options {
    plan::StepLedger::Options ledger{};
    std::vector<std::string> tasks{};  // "chief", "worker 0": by rank, as messages name them
    double heartbeat_timeout = 6;
    Clock* clock = &system_clock();
  };
  explicit LedgerHost(Options options);

  // Answers one request about the ledger; it may wait for as long as the request says, a few
  // seconds. Throws what the asker is to be told.
  nlohmann::json answer(const nlohmann::json& request);
  // The last update that several workers made together, as {"round": {...}}; empty without one.
  nlohmann::json last_round() const;
  // Whether this step of a worker counts.
  bool committed(int rank, int64_t ticket);
  // The process `incarnation` of the worker is gone.
  void leave(int rank, uint64_t incarnation);
  // The run has failed, as everybody who asks is told.
  void fail(const Error& error);
  std::optional<Error> failure() const;

  // The chief has ended the run.
  bool finished() const;
  // Waits until every worker that came has said goodbye or is gone, within so many seconds.
  void wait_for_goodbyes(double seconds);
  // Seconds since the chief was last heard of; nothing while it is here.
  std::optional<double> without_chief();
  // Looks who is silent. Call it more often than twice in a heartbeat_timeout: time in which nobody
  // looked was a standstill of this process, and is none of the others' silence.
  void look();
  // Ends all waits.
  void close();

 private:
  struct Task {
    uint64_t incarnation = 0;  // 0: has not come
    bool here = false;
    bool said_goodbye = false;
    bool parted = false;  // it said that it goes before the end
    double heard = 0;
    plan::Phase phase = plan::Phase::kJoining;
    int64_t step = -1;
  };
  double now() const { return to_seconds(options_.clock->now().time_since_epoch()); }
  Task& task(int rank);
  // Whether this process of its task takes part: what an earlier one left behind does not speak for
  // one that came later.
  bool is_here(const nlohmann::json& request);
  void check_failure() const;
  void check_generation(const nlohmann::json& request) const;
  void lose(int rank);
  // What is said of the others where one is gone; nothing where there are none.
  std::string others_go_on(int rank) const;
  Error taken_for_lost(int rank) const;
  // Waits for a change until `ready` holds, at most as long as the request says.
  void wait(std::unique_lock<std::mutex>& lock, const nlohmann::json& request,
            const std::function<bool()>& ready);
  nlohmann::json join(std::unique_lock<std::mutex>& lock, const nlohmann::json& request);
  nlohmann::json claim(std::unique_lock<std::mutex>& lock, const nlohmann::json& request);
  nlohmann::json commit(std::unique_lock<std::mutex>& lock, const nlohmann::json& request);
  // With the ticket of the worker's next step, where the request asks for it and it may begin now.
  nlohmann::json with_next_claim(nlohmann::json answer, const nlohmann::json& request);
  nlohmann::json settled(std::unique_lock<std::mutex>& lock, const nlohmann::json& request);
  nlohmann::json others(std::unique_lock<std::mutex>& lock, const nlohmann::json& request);
  nlohmann::json measures() const;
  nlohmann::json with_round(nlohmann::json answer) const;
  std::vector<std::string> names(const std::vector<int>& ranks) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  plan::StepLedger ledger_;
  std::vector<Task> tasks_;
  std::optional<Error> failure_;
  std::optional<double> chief_gone_since_;
  int64_t rows_ = 0;     // examples of all steps that counted
  bool let_go_ = false;  // the chief has saved for the last time
  bool finished_ = false;
  int64_t finished_at_ = 0;  // the step of the run then, as the chief said
  bool closed_ = false;
  double last_look_ = 0;
};

}  // namespace muster::inline v0_1::ps
