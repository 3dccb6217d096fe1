// What a launcher knows of the rendezvous by the connections to it, of which there is one at a
// time: what to say and when, when a connection counts as broken, and when the rendezvous counts as
// lost. Pure: no clock, no thread, no network; `now` is seconds on any clock that only moves
// forward. Thread safety: none, the owner locks.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/nodes/rendezvous.h"

namespace muster::inline v0_1::nodes {

// When silence is a loss, in seconds.
struct RendezvousLimits {
  double heartbeat_timeout = 6;  // without a word: the rendezvous counts as lost
  double reconnect_timeout = 2;  // no process listens at its address: it counts as ended
};

// Why the rendezvous is lost, or was never reached.
struct RendezvousLoss {
  std::string reason{};
  bool ended = false;  // its process has ended; else it may answer again
  bool never = false;  // it has never answered
  double seconds = 0;  // since the last word of it, or the begin
};

class RendezvousLink {
 public:
  RendezvousLink(RendezvousLimits limits, NodeReport report, double now);

  // What the launcher says from now on.
  void say(NodeReport report);
  const NodeReport& report() const { return report_; }
  // What was heard last; RunView::rendezvous is 0 before.
  const RunView& view() const { return view_; }

  // There is a connection now.
  void opened(double now);
  // Returns the report if it must be sent on the connection now: it is new, or is to show that the
  // launcher lives.
  std::optional<NodeReport> take_due(double now);
  // It was sent: from now on it is not new, if it has not changed since.
  void sent(const NodeReport& report);
  // Whether the report was sent since it changed.
  bool has_said_all() const { return !is_new_; }
  // The rendezvous has answered.
  void heard(RunView view, double now);
  // Why the connection counts as broken, though it is open: nothing was heard on it for too long.
  std::optional<Error> silence(double now) const;
  // The connection broke, or there was none to be had: `nobody_listens` if no process listens at an
  // address that answers.
  void failed(const std::string& error, bool nobody_listens, double now);

  // Nothing while the rendezvous answers.
  std::optional<RendezvousLoss> loss(double now) const;

 private:
  const RendezvousLimits limits_;
  NodeReport report_;
  bool is_new_ = true;
  RunView view_;
  double sent_at_ = 0;
  double heard_at_;       // on this connection, or its begin
  double last_heard_at_;  // on any, or the begin
  std::string last_error_;
  std::optional<double> refused_since_;
};

}  // namespace muster::inline v0_1::nodes
