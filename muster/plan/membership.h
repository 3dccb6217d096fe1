// The tasks of a run, and which of them are alive: joining, incarnations, heartbeats, silence,
// broken connections, goodbyes and restarts. Tasks in step, workers of parameter servers and
// workers that make scheduled calls go by these rules; each of their hosts adds what a member means
// to it: a place at barriers, a claim on a step, a call. Pure: no clock, no thread, no network;
// `now` is seconds on any clock that only moves forward. Thread safety: none, the owner locks.
//
// - A task joins: its process is here. The same process may ask again, and was heard of.
// - Another process of the task joins while the first is here: it takes the place at once, or, by
//   MembershipRules::twins_wait, it waits while the first one lives, for heartbeat_timeout, and
//   then it is refused. The first one is lost where the other takes its place.
// - A heartbeat counts for the process that sends it, and for no other of its task.
// - Silence of more than heartbeat_timeout, a connection that is broken for more than
//   reconnect_timeout, and the end of its process that its host sees: a member is lost, once.
// - Goodbye: it has left, which is not a loss. Nor is the end of one that is done.
// - A task that has left or was lost joins again like a new one.
//
// Every wait for a peer has its time-out by one of these names, here and elsewhere: join_timeout,
// until all who are wanted have come; heartbeat_timeout, silence; reconnect_timeout, a broken
// connection; restart_timeout, until one that is gone was started again; answer_timeout, one
// answer; goodbye_timeout, goodbyes at the end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/plan/failure.h"
#include "muster/plan/phase.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::plan {

// How patient a host is.
struct MembershipRules {
  double heartbeat_timeout = 6;  // seconds of silence after which a member is lost
  // Seconds a member's broken connection may take to come back; unset: members hold none.
  std::optional<double> reconnect_timeout{};
  // Whether a second process with the name of a live one waits, because it would end what all
  // others do. Unset: what the first process held is free again, and costs the others nothing.
  bool twins_wait = false;
};

// The signs of life of one process.
struct MUSTER_PART_EXPORT Pulse {
  double heard = 0;
  std::optional<double> disconnected_since{};

  // Nothing where it is not lost.
  std::optional<std::string> why_lost(const MembershipRules& rules, double now) const;
  // The observer itself was paused for this many seconds, which do not count as silence of others.
  void forgive(double seconds, double now);
};

// For how many seconds a process that looks at others now and then stood still itself, since its
// last look, which this one replaces; 0 where that was `longest_gap` ago at most.
MUSTER_PART_EXPORT double standstill(double* last_look, double now, double longest_gap);

// Where a member is, as it says.
struct MemberPlace {
  Phase phase = Phase::kJoining;
  int64_t step = -1;
};

class MUSTER_PART_EXPORT Membership {
 public:
  Membership(MembershipRules rules, double now) : rules_(rules), last_look_(now) {}

  enum class State {
    kHere,
    kDone,  // it has made its last step, and still answers
    kLeft,  // it said goodbye, or was done when it ended
    kLost,
  };
  // The process of a task that joined last.
  struct Member {
    uint64_t incarnation = 0;
    State state = State::kHere;
    Pulse pulse{};
    int connections = 0;  // open: a new one may begin before the end of the old one shows
    MemberPlace place{};
    bool here() const { return state == State::kHere || state == State::kDone; }
  };

  // What a process hears that wants to take part. kKnown: it does already. kRestarted: an earlier
  // process of its task was here, and is gone with this. kTooEarly: ask again. kRefused: the
  // earlier one lives.
  enum class Admission { kAdmitted, kKnown, kRestarted, kTooEarly, kRefused };
  Admission join(const Caller& caller, double now);
  // The same, but the caller does not come in: its host wants it elsewhere.
  Admission knock(const Caller& caller, double now);

  // A sign of life. False, and nothing, where the process is not here.
  bool heartbeat(const Caller& caller, double now, std::optional<MemberPlace> place = {});
  // A connection of the process came up or broke.
  void connected(const Caller& caller);
  void disconnected(const Caller& caller, double now);
  void done(const Caller& caller);
  // The state it had; nothing where the process is not here.
  std::optional<State> goodbye(const Caller& caller);
  // Its process is gone, and said nothing. What to say of it; nothing where it is not a loss.
  std::optional<Failure> lose(const Caller& caller, std::string reason);
  // Returns the tasks that are lost by now; each loss is reported once. Called a few times per
  // heartbeat_timeout: a gap of more than half of it was a standstill of this process, and is not
  // counted as silence.
  std::vector<Failure> find_lost(double now);
  // Seconds for which this process stood still since the last time this was asked.
  double take_standstill() { return std::exchange(stood_still_, 0); }
  // The task is as if it had never come.
  void forget(const std::string& task);

  // Nothing where no process of the task came, or not this one.
  const Member* find(const std::string& task) const;
  const Member* find(const Caller& caller) const;
  bool is_here(const std::string& task) const { return is_here(find(task)); }
  bool is_here(const Caller& caller) const { return is_here(find(caller)); }
  // How many are here.
  int64_t here() const;
  const std::map<std::string, Member>& all() const { return members_; }  // by task

 private:
  // Each look at the others begins with this.
  void forgive_standstill(double now);
  static bool is_here(const Member* member) { return member != nullptr && member->here(); }
  Member* known(const Caller& caller);
  Member* here(const Caller& caller);
  static std::optional<Failure> end(const std::string& task, Member& member, std::string reason);

  MembershipRules rules_;
  double last_look_;
  double stood_still_ = 0;
  std::map<std::string, Member> members_;
  std::map<std::pair<std::string, uint64_t>, double> twins_;  // that wait: since when
};

}  // namespace muster::inline v0_1::plan
