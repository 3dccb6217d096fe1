// The launchers of a run on several machines meet here. The rendezvous decides which launchers have
// joined, when all tasks start, which exit code the run has, and whether the tasks start again. The
// launcher of the first machine holds the rendezvous and serves it to all (rendezvous_server.h).
// Pure: no clock, no thread, no network; `now` is seconds on any clock that only moves forward.
// Thread safety: none, the owner locks.
//
// A launcher reports its whole state each time, and hears the whole state of the run, so that a
// report or an answer that is lost with its connection costs nothing.
//
// - A round is one start of all tasks. It begins when the launchers of all machines are here, none
//   has a task that runs, and each has heard of the round before: one that stood still may read the
//   news of an old round late, and would start its tasks.
// - The first failure of a round ends it on all machines. A launcher that is lost is a failure: its
//   tasks have ended with it.
// - When all have ended, the root cause is the failure of the highest rank (launch/supervise.h), of
//   those the first that was reported. Its exit code is that of the run, on all machines.
// - A code that asks for it starts the next round, within the budget (plan/restart_budget.h). Other
//   codes end the run.
// - A launcher that was lost may come again, as another process or the same one, and is waited for
//   until the time to join is over.
// - A signal to one launcher stops the run on all machines.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/base/error.h"
#include "muster/plan/membership.h"
#include "muster/plan/restart_budget.h"

namespace muster::inline v0_1::nodes {

// How the tasks of one machine ended.
struct NodeOutcome {
  int exit_code = 0;
  int rank = 0;  // of the root cause, as in launch::Outcome; 0: no task failed
  bool address_in_use = false;
  std::vector<std::string> reasons{};  // the lines that say why
  bool operator==(const NodeOutcome&) const = default;
  static auto fields(auto& m) { return std::tie(m.exit_code, m.rank, m.address_in_use, m.reasons); }
};

// What a launcher says of itself.
struct NodeReport {
  // Who it is: the same in all reports of a process.
  int node = 0;                      // the number of its machine, from 0
  int nodes = 1;                     // how many machines it was told of
  std::string host{};                // the name of its machine, for messages
  std::string job_id{};              // the name of the job; "" without one
  std::vector<std::string> flags{};  // what must be the same on all machines: "--workers=2"

  enum class State { kReady, kRunning, kEnded, kLeaving };
  State state = State::kReady;
  std::vector<std::string> addresses{};  // where its tasks of the next round will listen
  int64_t round = 0;                     // the round of kRunning and kEnded
  std::string failing{};                 // the first failure of its tasks in this round; "": none
  int stop_signal = 0;                   // the run is to stop by this signal
  NodeOutcome outcome{};                 // of kEnded
  // The last round that it has heard of, and of which rendezvous. While it says kReady, it will not
  // start the tasks of this round any more.
  uint64_t heard_rendezvous = 0;
  int64_t heard_round = 0;
  bool operator==(const NodeReport&) const = default;
  static auto fields(auto& m) {
    return std::tie(m.node, m.nodes, m.host, m.job_id, m.flags, m.state, m.addresses, m.round,
                    m.failing, m.stop_signal, m.outcome, m.heard_rendezvous, m.heard_round);
  }
};

// What a launcher hears.
struct RunView {
  enum class State { kGathering, kRunning, kEnding, kOver };
  State state = State::kGathering;
  uint64_t rendezvous = 0;  // the process that holds the rendezvous; 0: not heard of yet
  // Why this launcher does not belong to the run.
  std::optional<Error> refused{};
  std::vector<std::string> missing{};  // kGathering: what is waited for
  int64_t last_round = 0;              // kGathering: the round that began last; 0: none yet
  // kRunning and kEnding: of this launcher's round.
  int64_t round = 0;
  std::vector<std::vector<std::string>> addresses{};  // of the tasks of each machine
  std::string job_id{}, run_id{};
  bool new_ports = true;  // whether a port in use may be replaced once more
  std::string failure{};  // kEnding: the first failure; "" when the run was stopped
  std::string done{};     // a machine whose tasks have all ended well; "": none
  int stop_signal = 0;
  int exit_code = 0;  // kOver
  // What all launchers print, the first of them with the number `first_line`.
  int64_t first_line = 0;
  std::vector<std::string> lines{};
  static auto fields(auto& m) {
    return std::tie(m.state, m.rendezvous, m.refused, m.missing, m.last_round, m.round, m.addresses,
                    m.job_id, m.run_id, m.new_ports, m.failure, m.done, m.stop_signal, m.exit_code,
                    m.first_line, m.lines);
  }
};

// The run that a rendezvous is for.
struct RendezvousOptions {
  NodeReport first{};         // the first machine's, with which all others must agree
  std::string job_id{};       // what the run is called where `first` has no name for it
  uint64_t id = 1;            // of this process, not 0
  double join_timeout = 600;  // seconds until a machine that does not come is given up
  plan::RestartRules restarts{};
  plan::MembershipRules membership{
      .heartbeat_timeout = 6, .reconnect_timeout = 2, .twins_wait = true};
};

class Rendezvous {
 public:
  Rendezvous(RendezvousOptions options, double now);

  // Takes a report of a launcher's process and returns what it is to hear.
  RunView report(uint64_t process, const NodeReport& report, double now);
  // A connection of the process came up, or broke. connected() is false, and nothing, while the
  // process does not belong to the run.
  bool connected(uint64_t process, int node);
  void disconnected(uint64_t process, int node, double now);
  // What the process is to hear when time alone has passed since its report.
  RunView look(uint64_t process, int node, double now);
  // Makes what is due by now. Called several times a second.
  void advance(double now);
  // Whether the run is over and every launcher that lives has heard it.
  bool all_left() const;

 private:
  // The last report of a machine's launcher.
  struct Node {
    NodeReport report{};
    uint64_t process = 0;
  };
  // What a launcher has to do with the round.
  struct Part {
    uint64_t process = 0;
    std::string name{};
    std::vector<std::string> addresses{};
    std::optional<NodeOutcome> outcome{};
    int order = 0;  // in which the outcomes came
  };

  std::optional<Error> contradiction(const NodeReport& report) const;
  void note(uint64_t process, const NodeReport& report);
  void lose(int node, const std::string& why);
  void begin_ending(const std::string& failure);
  void finish(int node, Part& part, NodeOutcome outcome);
  void gather(double now);
  void begin_round();
  void conclude(double now);
  void restart(int code, double now);
  void end(int code);
  void say_cause(const Part& part);
  void say(std::string line);
  std::string name_of(int node) const;
  bool is_ready(int node) const;
  std::vector<std::string> missing() const;
  RunView view_of(uint64_t process, int node) const;

  RendezvousOptions options_;
  plan::Membership members_;
  plan::RestartBudget budget_;
  std::map<int, Node> nodes_;  // of which a launcher came, by number
  std::map<int, Part> parts_;  // of the round that runs, or ran last
  RunView::State state_ = RunView::State::kGathering;
  int64_t round_ = 0;
  double not_before_ = 0;  // when the next round may begin
  double until_ = 0;       // when those that are missing are given up
  bool new_ports_ = true;
  std::string failure_;      // of the round
  std::string first_cause_;  // of the run
  std::string last_cause_;
  int stop_signal_ = 0;
  int exit_code_ = 0;
  int ended_ = 0;
  int64_t first_line_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace muster::inline v0_1::nodes
