// Launchers that report to a Rendezvous by hand, for tests. Thread safety: one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/exit_code.h"
#include "muster/nodes/rendezvous.h"

namespace muster::inline v0_1::nodes {

inline NodeReport report_of(int node, int nodes) {
  return {.node = node,
          .nodes = nodes,
          .host = "host" + std::to_string(node),
          .job_id = "job",
          .flags = {"--workers=1", "the program train"},
          .state = NodeReport::State::kReady,
          .addresses = {"host" + std::to_string(node) + ":1"}};
}

// Says which round began last, as a view told. Returns whether it is news.
inline bool hears(NodeReport& report, const RunView& view) {
  if (view.state != RunView::State::kGathering || view.last_round == report.heard_round)
    return false;
  report.heard_rendezvous = view.rendezvous;
  report.heard_round = view.last_round;
  return true;
}

// Launchers that report by hand, and a clock that is moved by hand.
class Launchers {
 public:
  explicit Launchers(int nodes, int restarts = 0)
      : Launchers({.first = report_of(0, nodes),
                   .join_timeout = 60,
                   .restarts = {.restarts = restarts}}) {
    for (int node = 0; node < nodes; ++node) come(node, 100 + node);
  }
  // None has come.
  explicit Launchers(const RendezvousOptions& options)
      : rendezvous_(options, 0), first_(options.first) {}

  // A launcher's process connects, with no task.
  RunView come(int node, uint64_t process) {
    reports_[node] = report_of(node, first_.nodes);
    reports_[node].least = first_.least;
    processes_[node] = process;
    const RunView view = send(node);
    rendezvous_.connected(process, node);
    return view;
  }
  RunView send(int node) {
    const RunView view = rendezvous_.report(processes_[node], reports_[node], now_);
    if (!hears(reports_[node], view)) return view;
    return rendezvous_.report(processes_[node], reports_[node], now_);
  }
  RunView runs(int node, int64_t round) {
    reports_[node].state = NodeReport::State::kRunning;
    reports_[node].round = round;
    reports_[node].entry = view(node).entry;
    return send(node);
  }
  RunView ends(int node, NodeOutcome outcome) {
    reports_[node].state = NodeReport::State::kEnded;
    reports_[node].outcome = std::move(outcome);
    return send(node);
  }
  RunView ready(int node) {
    reports_[node].state = NodeReport::State::kReady;
    reports_[node].outcome = {};
    reports_[node].tasks = {};
    return send(node);
  }
  void breaks(int node) { rendezvous_.disconnected(processes_[node], node, now_); }
  // Time passes, in which those that are not named as silent report.
  void pass(double seconds, const std::vector<int>& silent = {}) {
    for (const double until = now_ + seconds; now_ < until;) {
      now_ += 0.5;
      for (const auto& [node, report] : reports_) {
        if (std::find(silent.begin(), silent.end(), node) == silent.end()) (void)send(node);
      }
      rendezvous_.advance(now_);
    }
  }
  RunView view(int node) { return rendezvous_.look(processes_[node], node, now_); }
  NodeReport& report(int node) { return reports_[node]; }
  Rendezvous& rendezvous() { return rendezvous_; }
  double now() const { return now_; }

 private:
  Rendezvous rendezvous_;
  NodeReport first_;
  double now_ = 0;
  std::map<int, NodeReport> reports_;
  std::map<int, uint64_t> processes_;
};

inline const NodeOutcome kKilled{
    .exit_code = kExitKilled, .rank = 1, .reasons = {"worker 1 was killed"}};
inline const NodeOutcome kLostPeer{
    .exit_code = kExitRestart, .rank = 5, .reasons = {"worker 0 lost a peer"}};

}  // namespace muster::inline v0_1::nodes
