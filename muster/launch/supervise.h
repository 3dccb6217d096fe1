// Runs a group of processes as one: starts them, passes their output on line by line, forwards
// signals, and stops the rest when one fails. Thread safety: one call at a time in a process, from
// its main thread (signals are blocked and read by the call while it runs, then given back).
//
// Each process leads a session of its own, so Ctrl-C on the terminal reaches it once, through us;
// the kernel kills it when we die. The children of a process are killed when it has ended, and when
// our process has ended, for whatever reason. These are all processes of its session, and all
// processes of any session that began with the variable MUSTER_TASK_OF of this call in the
// environment.
//
// When one fails, the others get `survivor_time` to notice and exit by themselves (they know best
// which task was lost), then SIGTERM, then after `grace` SIGKILL. SIGINT, SIGTERM and SIGUSR1 are
// forwarded (SIGHUP as SIGTERM), with SIGKILL after `stop_time`; Ctrl-C after any stop request
// kills at once.
//
// If all end in the same way within half a second, such as by a wrong flag, one line says so for
// all.
//
// When a task has ended well and others run on, a line says now and then for which tasks we wait.
// Tasks that then do nothing for `idle_time`, neither computing nor printing, count as hung, and
// are stopped as above. A line of Muster's log by which a task says that it waits does not count as
// work. The computation of a task's child processes counts as its work.
//
// A process outside the group (an evaluator) is not a member: when it fails, a line says so and the
// others continue. When they have ended well, the call waits for it as for any process. When one of
// them failed with an exit code that asks for a restart, or was killed, the outside process is
// stopped as soon as it is alone, because it would wait for that restart. With another exit code it
// gets the rest of `survivor_time`.
//
// A process that may be lost, or serves the others, has no group to join if it was started again
// and all others have ended well by then: after `survivor_time` it is stopped, which is no failure.
//
// A process that may be started again is started again when it is killed or exits with 138, as long
// as no other failure and no signal has ended the group. A process that may be lost stops no other
// then, nor when it alone was asked to stop (130, 143), and is treated like a process outside the
// group; with another exit code it is like any other.
//
// The root cause is the failure of the highest rank, and of those the earliest:
//   1. a death by a signal we did not send, or an exit code other than those below, unless its last
//      lines repeat the error of another task;
//   2. exit codes 130 and 143: someone stopped that task alone;
//   3. exit code 138 for a reason of its own;
//   4. a task that still ran when `survivor_time` or `idle_time` was over: it hung;
//   5. exit code 138 of a survivor whose last lines say that a peer was lost or did not come, and
//      other codes of one that repeats the error of another task;
//   6. a failure of a process outside the group;
//   7. whatever a task did after we signalled it.
// The group's exit code is the root cause's, 128 + n for signal n, and 138 when a task hung. After
// a stop request the failures of rank 1 still win, and so does a task that says why it could not
// save. Otherwise it is 0 if every task returned 0, else 130 for SIGINT, 143 for SIGTERM and 138
// for SIGUSR1.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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
  bool beside = false;                 // it is outside the group
  // The others continue without it when it is killed, or exits with 138, 130 or 143.
  bool may_be_lost = false;
  bool serves = false;  // when the others have ended well, there is nothing to do for it
  int restarts = 0;     // how often it is started again then
};

struct Outcome;

// How long to wait, and the destination of the output.
struct SuperviseOptions {
  std::chrono::milliseconds survivor_time = std::chrono::seconds(15);
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  std::chrono::milliseconds idle_time = std::chrono::seconds(60);
  std::chrono::milliseconds stop_time = std::chrono::seconds(60);
  int out_fd = 1;     // destination of the tasks' standard output
  int err_fd = 2;     // where their standard error and our own lines go
  bool json = false;  // each line a JSON object: "task", and its text
  // When it is set, a task that exits with 138 and printed "address already in use" ends the group
  // at once and quietly. The outcome says so, and the caller may try again with other ports.
  bool stop_on_address_in_use = false;
  // For callers that keep a record. Called in between, and must be quick: when the task of that
  // index in `processes` was started (or started again), wrote a line, or ended; and at last when
  // the group has ended.
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
  int order = 0;             // 0 for the first to end
  std::string last_error{};  // its last line for which is_error_line() holds
  std::vector<std::string> last_error_lines{};  // the first line, and the lines that belong to it
};

// How the group ended.
struct Outcome {
  int exit_code = 0;
  std::optional<std::size_t> root_cause{};  // index of the task whose failure ended the group
  bool address_in_use = false;              // see SuperviseOptions::stop_on_address_in_use
  int stop_signal = 0;                      // the first SIGINT, SIGTERM or SIGUSR1 we were sent
  std::vector<TaskExit> tasks{};            // as in `processes`
};

// Starts the processes and blocks until every one has ended. Throws Error when one cannot be
// started; the others are stopped first.
Outcome supervise(const std::vector<ProcessSpec>& processes, const SuperviseOptions& options = {});

}  // namespace muster::inline v0_1::launch
