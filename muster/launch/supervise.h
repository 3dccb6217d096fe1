// Runs a group of processes as one: starts them, passes their output on line by line, forwards
// signals, and stops the rest when one fails. Thread safety: one call at a time in a process, from
// its main thread (signals are blocked and read by the call while it runs, then given back).
//
// Each process leads a session of its own, so Ctrl-C on the terminal reaches it once, through us;
// the kernel kills it when we die. What a process has started is killed when it has ended, and when
// we have, whatever ended us: all of its session, and what has the variable MUSTER_TASK_OF of this
// call in the environment with which it began, whatever session it is in.
//
// When one fails, the others get `survivor_time` to notice and exit by themselves (they know best
// who was lost), then SIGTERM, then after `grace` SIGKILL. SIGINT, SIGTERM and SIGUSR1 are
// forwarded (SIGHUP as SIGTERM), with SIGKILL after `stop_time`; Ctrl-C after any stop request
// kills at once.
//
// Where all end in the same way within half a second, as by a wrong flag, one line says so for all.
//
// When a task has ended well and others run on, a line says now and then for whom we wait. Those
// that then do nothing for `idle_time`, neither computing nor printing, count as hung, and are
// stopped as above. A line of Muster's log by which a task says that it waits is nothing. What
// processes that a task has started compute is work of the task.
//
// A process next to the group (an evaluator) is none of it: when it fails, a line says so and the
// others go on. When they have ended well it is waited for as for any. When one of them failed with
// an exit code that asks for a restart, or was killed, the process next to them is stopped as soon
// as it is alone, for it would wait for that restart; with another exit code it has what is left of
// `survivor_time`.
//
// One that may be lost, or serves the others, was started again and comes when all others have
// ended well has nobody to join: after `survivor_time`, 5 s at most, it is stopped, which is not a
// failure.
//
// A process that may be started again is, when it is killed or exits with 138, as long as no other
// failure and no signal has ended the group. One that may be lost stops nobody then, nor when it
// was told to stop by itself (130, 143), and is like one next to the group; with another exit code
// it is like any other.
//
// In an elastic run on several machines a lost task is started again when the others allow it, and
// they know whether enough tasks are left.
//
// The root cause is the failure of the highest rank, and of those the earliest:
//   1. a death by a signal we did not send, or an exit code other than those below, unless the last
//      words are what another task failed with;
//   2. exit codes 130 and 143: someone stopped that task alone;
//   3. exit code 138 for a reason of its own;
//   4. a task that still ran when `survivor_time` or `idle_time` was over: it hung;
//   5. exit code 138 of a survivor whose last words are that a peer was lost or did not come, and
//      other codes of one that repeats what another task failed with;
//   6. a failure of a process next to the group, or of one that may be lost;
//   7. whatever a task did after we signalled it.
// The group's exit code is the root cause's, 128 + n for signal n, and 138 when a task hung. After
// a stop request the failures of rank 1 still win, and so does a task that says why it could not
// save; otherwise it is 0 if every task returned 0, else
// 130 for SIGINT, 143 for SIGTERM and 138 for SIGUSR1.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/launch/exit_status.h"
#include "muster/launch/said_error.h"

namespace muster::inline v0_1::launch {

// One process to start.
struct ProcessSpec {
  std::string name{};               // "worker 0": the prefix of its lines
  std::vector<std::string> argv{};  // argv[0] is a path; PATH is not searched
  std::vector<std::pair<std::string, std::string>> environment{};  // on top of ours
  // More of the environment, which nothing that describes the process shows.
  std::vector<std::pair<std::string, std::string>> secrets = {};
  std::vector<std::string> without{};  // variables of ours it does not get
  std::vector<int> cores{};            // pinned to these; empty: not pinned
  bool beside = false;                 // it is next to the group
  // The others continue without it when it is killed, or exits with 138, 130 or 143.
  bool may_be_lost = false;
  bool serves = false;  // when the others have ended well, there is nothing to do for it
  int restarts = 0;     // how often within an hour it is started again then
  // One that may be lost: where the others end well, its loss is no failure of the run.
  bool spared = false;
  bool newcomer = false;  // it joins others that run already, as one that was started again
};

struct Outcome;

// What the other groups of a run on several machines must know of this one.
struct GroupState {
  std::string failed{};  // the failure that ends it: "worker 1: exit code 138"; "": none
  int stop_signal = 0;   // it is stopped by this signal to us
  bool kills = false;    // and killed, by Ctrl-C after it
  // How many of its tasks are left: not those that were lost and do not start again. Nothing before
  // they are started.
  std::optional<int> left{};
  int64_t answered = 0;  // of the lost tasks that asked to start again, how many had an answer
  std::vector<std::string> asks{};  // the others, in order: "worker 1: killed by SIGKILL"
  bool operator==(const GroupState&) const = default;
  static auto fields(auto& m) {
    return std::tie(m.failed, m.stop_signal, m.kills, m.left, m.answered, m.asks);
  }
};

// What the other groups of a run on several machines do.
struct OtherGroups {
  std::string
      failed{};  // the first failure among them: "node 1: worker 3: exit code 138"; "": none
  bool too_few = false;   // it is that fewer tasks than the minimum are left
  bool left_out = false;  // or that they continue without this group, whose tasks may not notice it
  std::string done{};     // one of them that has ended well; "": none
  int stop_signal = 0;    // the run is to stop, as by this signal to us
  bool kills = false;     // and at once, as by Ctrl-C after it
  // Of the lost tasks of this group, from number `first_answer`, whether they start again.
  int64_t first_answer = 0;
  std::vector<int> answers{};
};

// Says how long to wait, and where output goes.
struct SuperviseOptions {
  std::chrono::milliseconds survivor_time = std::chrono::seconds(15);
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  std::chrono::milliseconds idle_time = std::chrono::seconds(60);
  std::chrono::milliseconds stop_time = std::chrono::seconds(60);
  int out_fd = 1;     // where the tasks' standard output goes
  int err_fd = 2;     // where their standard error and our own lines go
  bool json = false;  // each line a JSON object: "task", and what it said
  // The others do not continue without a lost task when fewer than so many of the group are left.
  int min_tasks = 0;
  // When it is set, a task that exits with 138 and printed "address already in use" ends the group
  // at once and quietly. The outcome says so, and the caller may try again with other ports.
  bool stop_on_address_in_use = false;
  // Of a run on several machines: asked about ten times a second, and at once when the state of
  // this group has changed; to be quick. After a failure of another group, the tasks have
  // `survivor_time`, as after one of this group, but none if they are left out. The outcome holds
  // the reasons, and supervise() does not print them.
  std::function<OtherGroups(const GroupState& own)> others = {};
  // A task that is spared asks the others before it is started again.
  bool asks_others = false;
  // For who keeps a record: called in between, and to be quick, when the task of that index in
  // `processes` was started, once more too; wrote a line; ended; and at last when the group has.
  std::function<void(std::size_t task)> on_start = {};
  std::function<void(std::size_t task, std::string_view line)> on_line = {};
  std::function<void(std::size_t task, const ExitStatus& status)> on_exit = {};
  std::function<void(const Outcome& outcome)> on_end = {};
};

// How one process ended.
struct TaskExit {
  ExitStatus status{};
  bool ended = false;  // false: it could not be killed
  bool after_our_signal = false;
  bool stuck = false;        // it ran on when survivor_time or idle_time was over
  bool too_late = false;     // it was started again, and the run was over without it
  bool needed = false;       // it might have been lost, but the others were too few without it
  bool refused = false;      // it was started again, and the others, who are enough, continue
  int order = 0;             // 0 for the first to end
  std::string last_error{};  // its last line for which is_error_line() holds
  std::vector<std::string> last_error_lines{};  // that one, and those that belong to it
};

// The rank of a failure without which the others continue.
inline constexpr int kSparedRank = 6;

// How the group ended.
struct Outcome {
  int exit_code = 0;
  std::optional<std::size_t> root_cause{};  // index of the task whose failure ended the group
  bool address_in_use = false;              // see SuperviseOptions::stop_on_address_in_use
  int stop_signal = 0;                      // the first SIGINT, SIGTERM or SIGUSR1 we were sent
  int rank = 0;                        // of the root cause, by the list above; 0: no task failed
  std::vector<std::string> reasons{};  // lines that say why the group failed
  std::vector<TaskExit> tasks{};       // as in `processes`
};

// Starts the processes and blocks until every one has ended. Throws Error when one cannot be
// started; the others are stopped first.
Outcome supervise(const std::vector<ProcessSpec>& processes, const SuperviseOptions& options = {});

}  // namespace muster::inline v0_1::launch
