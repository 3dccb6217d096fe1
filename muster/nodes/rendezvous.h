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
// - A signal to one launcher stops the run on all machines. Ctrl-C after it kills all tasks.
//
// An elastic run goes on while enough tasks are left, those of the first machine among them:
//
// - A round begins without a machine that does not come, if enough others are here and none has
//   come or was lost for `settle_timeout`.
// - The loss of another machine than the first, and a signal to its launcher, end nothing. The
//   machine takes part in the round again when its launcher, or another process of it, is ready.
// - A lost task asks to be started again by itself. All machines share one budget for this and for
//   rounds.
// - A round ends when fewer tasks than the minimum are left, and no machine that is gone may come
//   again within `join_timeout`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/base/error.h"
#include "muster/launch/supervise.h"
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
  int least = 0;                     // how many of them are enough; 0: the run is not elastic
  std::string host{};                // the name of its machine, for messages
  std::string job_id{};              // the name of the job; "" without one
  std::vector<std::string> flags{};  // what must be the same on all machines: "--workers=2"

  enum class State { kReady, kRunning, kEnded, kLeaving };
  State state = State::kReady;
  std::vector<std::string> addresses{};  // where its tasks of the next round will listen
  int64_t round = 0;                     // the round of kRunning and kEnded
  int64_t entry = 0;                     // and its own entry into this round
  launch::GroupState tasks{};            // of kRunning
  bool cut_off = false;                  // it ends its tasks, because it was lost to the rendezvous
  int stop_signal = 0;                   // the run is to stop by this signal
  NodeOutcome outcome{};                 // of kEnded
  // The last round that it has heard of, and of which rendezvous. While it says kReady, it will not
  // start the tasks of this round any more.
  uint64_t heard_rendezvous = 0;
  int64_t heard_round = 0;
  bool operator==(const NodeReport&) const = default;
  static auto fields(auto& m) {
    return std::tie(m.node, m.nodes, m.least, m.host, m.job_id, m.flags, m.state, m.addresses,
                    m.round, m.entry, m.tasks, m.cut_off, m.stop_signal, m.outcome,
                    m.heard_rendezvous, m.heard_round);
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
  int64_t entry = 0;                                  // the number of this launcher's entry into it
  bool joins = false;                                 // the others had begun before
  std::vector<std::vector<std::string>> addresses{};  // of the tasks of each machine
  std::string job_id{}, run_id{};
  bool new_ports = true;  // whether a port in use may be replaced once more
  std::string failure{};  // kEnding: the first failure; "" when the run was stopped
  bool too_few = false;   // it is that fewer tasks than the minimum are left
  std::string done{};     // a machine whose tasks have all ended well; "": none
  // As launch::OtherGroups has them.
  int64_t first_answer = 0;
  std::vector<int> answers{};
  int stop_signal = 0;
  bool kills = false;
  int exit_code = 0;  // kOver
  // What all launchers print that were there, the first of them with the number `first_line`.
  int64_t first_line = 0;
  std::vector<std::string> lines{};
  static auto fields(auto& m) {
    return std::tie(m.state, m.rendezvous, m.refused, m.missing, m.last_round, m.round, m.entry,
                    m.joins, m.addresses, m.job_id, m.run_id, m.new_ports, m.failure, m.too_few,
                    m.done, m.first_answer, m.answers, m.stop_signal, m.kills, m.exit_code,
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
  // Of an elastic run: how many tasks that train each machine has (with `chief` the first has one
  // more), and how many are enough; 0: the run is not elastic.
  int tasks = 1, min_tasks = 0;
  bool chief = false;
  double settle_timeout = 30;  // seconds
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
    int64_t first_line = 0;  // of what was said since this process came
  };
  // A lost task that asks to be started again.
  struct Ask {
    std::string text{};
    double since = 0;
    std::optional<double> due{};  // when it starts; nothing while the cause may be another failure
  };
  // What a launcher has to do with the round.
  struct Part {
    uint64_t process = 0;
    std::string name{};
    std::vector<std::string> addresses{};
    std::optional<NodeOutcome> outcome{};
    int order = 0;      // in which the outcomes came
    int64_t entry = 0;  // unique
    bool joins = false;
    int left = 0;  // of its tasks
    int64_t first_answer = 0;
    std::vector<int> answers{};
    std::vector<Ask> asks{};  // without an answer
  };
  // A machine that has no part in the round of an elastic run.
  struct Absent {
    double since = 0;
    std::string why{};
    std::optional<Part> part{};  // that it had when it was lost
  };

  std::optional<Error> contradiction(const NodeReport& report) const;
  void note(uint64_t process, const NodeReport& report, double now);
  int64_t next_line() const { return first_line_ + static_cast<int64_t>(lines_.size()); }
  void lose(int node, const std::string& why, double now);
  void begin_ending(const std::string& failure);
  void finish(int node, NodeOutcome outcome, double now);
  void gather(double now);
  void begin_round(double now);
  void conclude(double now);
  void restart(int code, double now);
  void end(int code);
  void say_cause(const Part& part);
  void say(std::string line);
  std::string name_of(int node) const;
  bool is_ready(int node) const;
  std::vector<std::string> missing() const;
  RunView view_of(uint64_t process, int node) const;
  std::optional<Part> cause() const;

  // --- of an elastic run: rendezvous_elastic.cc ---
  bool elastic() const { return options_.min_tasks > 0; }
  // Whether the others of the round continue without this machine.
  bool may_be_lost(int node) const {
    return elastic() && node != 0 && state_ == RunView::State::kRunning;
  }
  // Whether enough machines are ready, and the others had their time to come.
  bool may_begin_without_others(double now) const;
  // Where the tasks listen of a machine that has not come yet.
  std::vector<std::string> addresses_of(int node) const;
  // Whether the launcher of this machine, which was told to stop, leaves the others to go on.
  bool may_leave(int node) const;
  void leave_round(int node, double now, const std::string& why, bool may_be_here_again);
  // The launcher takes part in the round that runs, for the first time or again.
  void enter_round(uint64_t process, const NodeReport& report);
  void take_state(Part& part, const launch::GroupState& tasks, double now);
  void answer_asks(double now);
  void look_whether_enough_are_left(double now);
  // Whether all tasks of this machine are lost, and the others continue.
  bool is_spared(int node, const Part& part) const;

  RendezvousOptions options_;
  plan::Membership members_;
  plan::RestartBudget budget_;
  std::map<int, Node> nodes_;                        // of which a launcher came, by number
  std::map<int, Part> parts_;                        // of the round that runs, or ran last
  std::vector<std::vector<std::string>> addresses_;  // of its tasks, by machine
  std::map<int, Absent> absent_;                     // of an elastic run
  std::map<uint64_t, int> leaving_;  // processes that were told to stop: their exit codes
  int64_t entries_ = 0;
  double settled_ = 0;    // when a machine came or was lost last
  bool too_few_ = false;  // fewer tasks than the minimum are left
  std::string gone_;      // the machine that is missing then, and why
  RunView::State state_ = RunView::State::kGathering;
  int64_t round_ = 0;
  double not_before_ = 0;  // when the next round may begin
  double until_ = 0;       // when those that are missing are given up
  bool new_ports_ = true;
  std::string failure_;      // of the round
  std::string first_cause_;  // of the run
  std::string last_cause_;
  int stop_signal_ = 0;
  bool kills_ = false;
  int exit_code_ = 0;
  int ended_ = 0;
  int64_t first_line_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace muster::inline v0_1::nodes
