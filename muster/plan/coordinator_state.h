// The coordinator's decisions as a state machine: who belongs to the group, who is alive, which
// barrier is complete, what failed first. Pure: no clock, no thread, no network; `now` is seconds
// on any clock that only moves forward. Thread safety: none, the owner locks.
//
// A group is formed when every task of the roster has joined; each group has an epoch, higher than
// the one before. The first failure of a group is recorded once and told to every member. After it,
// tasks that join again (with a new incarnation) gather for the next epoch. Tasks outside of the
// roster (evaluator, parameter servers) may join as observers: they hear of failures and of the
// end, their loss fails no other task, no barrier waits for them.
//
// An elastic run has a group of a part of the roster: min_members tasks or more, the first of the
// roster always. After a failure, and after an orderly end, it is formed of those that come again.
// A task that joins while a group runs without it waits for the next group, and fails nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/plan/failure.h"
#include "muster/plan/key_value_store.h"
#include "muster/plan/membership.h"
#include "muster/plan/phase.h"
#include "muster/plan/progress_watch.h"
#include "muster/plan/verdict.h"

namespace muster::inline v0_1::plan {

// A task that belongs to the group.
struct RosterEntry {
  std::string task{};     // "worker:1"
  std::string address{};  // "host:port", for messages
};

// Where a task that is not a member yet says that it belongs.
struct Seat {
  int rank = -1;  // -1: an observer
  int world_size = 0;
  std::vector<std::string> addresses = {};  // of the group in rank order; may be empty
};

// The group, and how patient it is.
struct CoordinatorOptions {
  std::vector<RosterEntry> roster{};  // the group, in rank order
  double heartbeat_timeout = 6;       // seconds of silence after which a member is lost
  double reconnect_timeout = 2;       // seconds a broken connection may take to come back
  // Seconds a member may keep others at a barrier: while it trains without a new step, while it
  // saves.
  double progress_timeout = 300;
  double save_timeout = 1800;
  double busy_timeout = 6 * 3600;  // while it builds or evaluates
  int64_t first_epoch = 1;
  // More than 0: the run is elastic, and a group has so many members or more. 0: all of the roster.
  int min_members = 0;
  // Seconds for which the first group of an elastic run waits for more than min_members, since the
  // last of them came.
  double settle_timeout = 3;
};

// In an elastic run the store has the ranks of the group's members here, "0,2,3".
inline constexpr const char* kMembersKey = "group/members";

// What a task learns from its heartbeat.
struct HeartbeatReply {
  std::optional<Failure> failure{};
  bool all_done = false;  // every member reported done
  int64_t epoch = 0;
};

class CoordinatorState {
 public:
  // Throws InvalidArgument for an empty roster, a task listed twice or a limit that is not
  // positive.
  CoordinatorState(CoordinatorOptions options, double now);

  // --- the group ---
  // Observers next to a group of `tasks`, and barriers of a group that may be open or were used
  // last: no run comes near to them.
  static constexpr int most_observers(int tasks) { return 16 + tasks; }
  static constexpr size_t kMostBarriers = 10'000;
  // Called again and again until kReady; a joiner that stops asking for heartbeat_timeout is
  // forgotten. `rank` must be the task's place in the roster, or -1 for an observer; `world_size`
  // must be the roster's size, and `addresses`, where the caller knows them, the roster's. A second
  // process with the name of a live one is refused after heartbeat_timeout; of one that is gone, it
  // fails the running group ("restarted"), except for one that was done: it waits for the others.
  Verdict join(const Caller& caller, int rank, int world_size, double now,
               const std::vector<std::string>& addresses = {});
  // The joiner's call ended without an answer: it is missing again.
  void abandon_join(const Caller& caller) { (void)joiners_.lose(caller, {}); }
  // The tasks that have not joined yet, in rank order.
  std::vector<MissingTask> missing(double now) const;
  int64_t epoch() const { return epoch_; }
  // The ranks of the present group's members, or of the last one's.
  const std::set<int>& group() const { return group_; }
  // How many tasks wait for the next group while the present one runs.
  int64_t newcomers() const { return trains() ? joiners_.here() : 0; }

  // --- liveness ---
  // Notes that the caller lives and where it is.
  HeartbeatReply heartbeat(const Caller& caller, Phase phase, int64_t step, double now);
  // The long-lived connection of a member came up or broke.
  void connected(const Caller& caller) { members_.connected(caller); }
  void disconnected(const Caller& caller, double now);
  // Whether the caller is here, had a connection, and has none.
  bool is_disconnected(const Caller& caller) const;
  bool is_connected(const Caller& caller) const;
  // The caller's process is known to have ended: it is lost, unless it has left. One that has not
  // joined yet will not, as fail_to_join() says.
  void process_ended(const Caller& caller);
  void process_ended(const Caller& caller, const Seat& seat, double now);
  // How many members have one: of these, a killed process is noticed at once.
  int connections() const;
  // Finds lost and stuck members. Call a few times per heartbeat_timeout; after a long gap (this
  // process itself was stopped) no member is blamed for the silence.
  void tick(double now);
  const std::optional<Failure>& first_failure() const { return failure_; }
  // What this caller must know: its group's failure, also after a newer group was formed.
  std::optional<Failure> failure_for(const Caller& caller) const;

  // --- what members do ---
  // `signature`: one line per variable ("name shape dtype"), in any order. Differing from what the
  // first member declared fails the group with a message naming both tasks and the lines that
  // differ.
  Verdict declare_model(const Caller& caller, std::vector<std::string> signature);
  // The `generation`-th use of `name` by this caller. It is complete when all members have come.
  Verdict barrier(const Caller& caller, const std::string& name, int64_t generation, double now);
  // The caller, a member, ends the group, for this reason.
  void fail(const Caller& caller, ErrorKind kind, const std::string& reason);
  // The caller, a member, has lost its connection to another one. Both may live. The group fails
  // when a member is found lost, when all members have reported a lost connection, or after twice
  // the reconnect_timeout. In the last two cases the connections of a task are to blame: of the
  // only one that was disconnected meanwhile, or of the first of the roster if all were. Otherwise,
  // and always in an elastic run, no task is to blame (Failure::task is empty), and the next group
  // of an elastic run waits for all.
  void report_lost_connection(const Caller& caller, const std::string& reason, double now);
  // A task of the roster says that it will not join: tasks that wait for the group learn why, until
  // that task joins. It is not believed when its cluster is another one, when the group does not
  // wait for it, or while another process of its name is joining.
  void fail_to_join(const Caller& caller, const Seat& seat, ErrorKind kind,
                    const std::string& reason, double now);
  // Whether no task of the roster is left that would wait in vain: each said that it will not join,
  // or asked, and heard that another will not.
  bool all_know_of_start_failure() const;
  // The caller has made its last step.
  void done(const Caller& caller);
  // Goodbye. Before the caller is done, and without an earlier failure, this fails the group. Of a
  // task that is only joining it fails no other task, since another process may replace it: tasks
  // that wait for the group learn that it left. `for_good`: it will not join again, so the next
  // group of an elastic run does not wait for it.
  void leave(const Caller& caller, bool for_good = false);
  bool all_done() const;
  // No member or observer is left to talk to.
  bool drained() const;

  // Whether the caller may open another long-lived connection.
  bool may_connect(const Caller& caller) const;

  // --- keys and values ---
  // The keys of the running group; they are cleared when the next one forms.
  KeyValueStore& store() { return store_; }
  // kReady for a member of a group that has not failed; kRefused for an observer.
  Verdict may_use_store(const Caller& caller) const {
    return turn_away(caller).value_or(Verdict{.state = Verdict::State::kReady});
  }
  // kReady when all keys are there, kFailed when the group failed.
  Verdict wait(const Caller& caller, const std::vector<std::string>& keys) const;

 private:
  struct Awaited {
    int rank = 0;
    double missing_since = 0;
  };
  struct Barrier {
    double opened = 0;
    std::set<int> arrived{};  // ranks
    bool complete = false;
  };
  using BarrierKey = std::pair<std::string, int64_t>;
  // What members of an elastic group report before one of them is found lost.
  struct LostConnections {
    double since = 0;
    Failure failure{};        // if all of them live
    std::set<int> reports{};  // ranks
  };

  // -1 for an observer.
  int rank_of(const std::string& task) const;
  // The refusal of a caller that is not a member, or whose group has failed; nothing for others.
  std::optional<Verdict> turn_away(const Caller& caller) const;
  // Nothing where no earlier process of the caller's task is in its way.
  std::optional<Verdict> wait_as_twin(Membership& others, const Caller& caller, double now);
  Verdict verdict_of_failure(const Caller& caller) const;
  bool elastic() const { return options_.min_members > 0; }
  // Whether there is a group that has neither failed nor ended.
  bool trains() const { return running_ && !failure_ && !all_done(); }
  // Whether those who gather are the next group.
  bool may_form(double now);
  // Whether a member of the last group may come again: one that lives, for progress_timeout; one
  // that has left, for heartbeat_timeout. Not the task that failed, no lost one, and none that has
  // left for good.
  bool awaits_members(double now) const;
  // What a task of an elastic run waits for while a group runs without it.
  std::vector<MissingTask> running_members(double now) const;
  // For messages. In an elastic run the entry of a task whose machine has not come has the chief's
  // host, which is not where it is: "" for each entry with this host but the chief's.
  std::string shown_address(const RosterEntry& entry) const;
  void form_group(double now);
  void record(const std::string& task, ErrorKind kind, std::string reason);
  void record_lost(const Failure& lost);
  // Lost connections fail the group if all members have reported some, or waited long enough.
  void judge_lost_connections(double now);
  // The task whose connections broke; "" if that is not known.
  std::string task_to_blame() const;
  // What keeps the caller from a place in the group, whatever the others do.
  std::optional<Verdict> refuse_join(const Caller& caller, const Seat& seat) const;
  Verdict join_as_observer(const Caller& caller, double now);
  // What those at the barrier wait for; kRefused when it can never be complete.
  Verdict wait_at(const Barrier& barrier, const Caller& caller, const std::string& name,
                  double now) const;
  // The open barrier a member stands at.
  std::optional<std::string> stands_at(int rank) const;
  Patience patience() const;
  std::string task_at(int rank) const;  // as messages name it
  void find_stuck(double now);

  CoordinatorOptions options_;
  ProgressWatch watch_;  // by rank
  int64_t epoch_ = 0;    // 0: no group yet
  bool running_ = false;
  std::set<int> group_;                // ranks of the present group
  std::optional<double> ended_since_;  // when it was seen first that the group has failed or ended
  double last_came_ = 0;               // when the last of those who gather came
  Membership members_;                 // the present group and its observers
  Membership joiners_;                 // who gathers for the next group
  std::set<std::string> gone_;         // tasks that have left for good since the group was formed
  std::map<std::string, Awaited> roster_;         // by task
  std::map<std::string, Failure> failed_starts_;  // tasks that said that they will not join
  std::set<std::string> heard_;                   // tasks that asked, and heard of these
  std::optional<Failure> failure_;
  std::optional<Failure> last_failure_;  // of an earlier group, for members who have not heard yet
  std::optional<LostConnections> lost_connections_;
  std::map<int, double> disconnected_at_;  // by rank: when its connection broke last
  std::pair<std::string, std::vector<std::string>> model_;  // declared first: by whom, lines
  std::map<BarrierKey, Barrier> barriers_;
  KeyValueStore store_;
};

}  // namespace muster::inline v0_1::plan
