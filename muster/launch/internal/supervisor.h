// The tasks of one machine while they run: their output, their ends, and who stops or starts again
// after whom. supervise() is its interface. Thread safety: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/launch/internal/idle_watch.h"
#include "muster/launch/internal/keeper.h"
#include "muster/launch/internal/output.h"
#include "muster/launch/internal/process.h"
#include "muster/launch/internal/signal_scope.h"
#include "muster/launch/supervise.h"
#include "muster/plan/restart_budget.h"

namespace muster::inline v0_1::launch::internal {

// An address in use explains the end of a task that said so within its last lines of this number.
inline constexpr int kRecentLines = 100;

struct RunningTask {
  const ProcessSpec* spec = nullptr;
  Started process;
  LineSplitter lines[2];
  TaskExit exit;
  std::chrono::steady_clock::time_point exit_time;
  bool signalled = false;
  bool reaped = false;
  bool asks = false;                            // the others, whether it is started again
  int restarts = 0;                             // made
  std::optional<plan::RestartBudget> budget{};  // unset before the first
  int line_count = 0;
  int in_use_line = -kRecentLines;  // when it last said so
  IdleWatch activity;
  SaidError said[2];     // the last error in each of its streams
  int error_stream = 1;  // which of them came last
  int error_line = 0;    // of all lines, the last one of its last error

  int& fd(int stream) { return stream == 0 ? process.out : process.err; }
  bool said_address_in_use() const { return line_count - in_use_line < kRecentLines; }
};

class Supervisor {
 public:
  Supervisor(const std::vector<ProcessSpec>& processes, const SuperviseOptions& options);
  ~Supervisor();
  Outcome run();

 private:
  using SteadyClock = std::chrono::steady_clock;

  // A group goes through these phases in order. Each but the last has a deadline.
  enum class Phase { kRunning, kSurvivors, kStopping, kKilled };

  void say(std::string_view text);
  void say_held();
  void start_all();
  std::size_t index_of(const RunningTask& task) const;
  void begin(RunningTask& task);
  void wait_for_events();
  // Reads one portion, so that a task that writes much cannot keep us from the others. Returns
  // false when nothing is there now.
  bool read_some(RunningTask& task, int stream);
  void take_line(RunningTask& task, int stream, std::string_view text, bool passing);
  void look_after(RunningTask& task);
  // Ends what the task left running, reads the rest of its output, and frees its process id.
  void reap(RunningTask& task);

  // --- which task starts again, and who ends without it: supervise_restarts.cc ---
  void on_exit(RunningTask& task);
  // Whether the others of the group are enough to continue.
  bool enough_are_left() const;
  static bool was_lost(const RunningTask& task);
  // Whether it joins others that run already.
  static bool is_newcomer(const RunningTask& task);
  // False, and nothing, when it may not be started again.
  bool start_again(RunningTask& task, const std::string& what);
  // False, after a line that says why, when it cannot be.
  bool begin_again(RunningTask& task, std::optional<plan::RestartBudget> budget);
  // A failure that no restart mends: `what`, such as "worker 1: exit code 2".
  void end_without(RunningTask& task, const std::string& what);
  // The answer of the others to the task that asked first.
  void take_answer(bool starts_again);
  // What the others must know now.
  const GroupState& own_state();
  // Those next to the group wait for a restart that will not come.
  void stop_those_left_alone();
  // Whether it was started again, and the run is over without it.
  bool is_too_late(const RunningTask& task) const;
  void stop_those_too_late();

  void on_signal(int number);
  // What other machines of the run have seen counts here too.
  void heed_others();
  void act_on_deadline();
  // When a task has ended well, the others have little left to do.
  void look_for_idle();
  void stop_all(int signal, std::chrono::milliseconds time);
  void kill_all();
  void send(int signal);
  bool all_reaped() const;
  bool given_up() const;
  std::string names_of_running() const;
  Outcome conclude();
  // Waits for the reader, as any program does at its end; a signal ends the wait.
  void flush();
  static void close_pipes(RunningTask& task);

  const SuperviseOptions options_;
  SignalScope signals_;
  Keeper keeper_;
  Output output_;
  std::vector<RunningTask> tasks_;
  Phase phase_ = Phase::kRunning;
  SteadyClock::time_point deadline_;
  int stop_signal_ = 0;
  int ended_ = 0;
  int all_lines_ = 0;  // of tasks
  bool address_in_use_ = false;
  std::string first_done_;  // the first task that ended with 0; "" while there is none
  SteadyClock::time_point done_time_, next_look_, held_until_;
  std::vector<std::string> held_;         // lines that are not needed when all fail alike
  std::chrono::seconds next_report_{10};  // after done_time_
  GroupState own_;
  std::vector<std::size_t> asking_;  // the tasks of own_.asks
};

// Returns a short text for lines in between; the last line explains more.
std::string short_text(const ExitStatus& status);

// "1.5 s".
std::string describe_seconds(std::chrono::milliseconds time);

}  // namespace muster::inline v0_1::launch::internal
