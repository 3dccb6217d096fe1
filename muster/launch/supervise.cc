#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/launch/internal/failure_rank.h"
#include "muster/launch/internal/processor_times.h"
#include "muster/launch/internal/run_outcome.h"
#include "muster/launch/internal/supervisor.h"
#include "muster/launch/internal/waiting_line.h"

namespace muster::inline v0_1::launch {
namespace internal {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTick{100};         // the longest sleep: the bound of a lost SIGCHLD
constexpr milliseconds kPipeTime{1000};    // for what a task left behind to finish writing
constexpr milliseconds kKillTime{10'000};  // for the kernel to end what got SIGKILL
constexpr milliseconds kIdleLook{1000};    // between looks whether those that remain do anything
constexpr int kOnScreen = 10;              // what so many lines followed is quoted at the end
constexpr std::string_view kAddressInUse = "address already in use";

bool contains_ignoring_case(std::string_view text, std::string_view lower) {
  return std::search(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
         }) != text.end();
}

}  // namespace

std::string short_text(const ExitStatus& status) {
  return status.signal != 0 ? "killed by " + signal_name(status.signal)
                            : fmt::format("exit code {}", status.code);
}

std::string describe_seconds(milliseconds time) {
  return fmt::format("{:g} s", time.count() / 1000.0);
}

Supervisor::Supervisor(const std::vector<ProcessSpec>& processes, const SuperviseOptions& options)
    : options_(options),
      output_(options.out_fd, options.err_fd, options.json),
      tasks_(processes.size()) {
  for (std::size_t i = 0; i < processes.size(); ++i) tasks_[i].spec = &processes[i];
}

Supervisor::~Supervisor() {
  for (RunningTask& task : tasks_) close_pipes(task);
}

Outcome Supervisor::run() {
  start_all();
  while (!all_reaped() && !given_up()) {
    wait_for_events();
    for (const int signal : signals_.take()) {
      on_signal(signal);
      own_.stop_signal = stop_signal_;
    }
    for (RunningTask& task : tasks_) {
      if (!task.reaped && task.process.pid > 0) look_after(task);
    }
    heed_others();
    stop_those_left_alone();
    stop_those_too_late();
    act_on_deadline();
    look_for_idle();
    if (SteadyClock::now() >= held_until_) say_held();
  }
  Outcome outcome = conclude();
  flush();
  return outcome;
}

void Supervisor::say(std::string_view text) {
  say_held();
  output_.line(1, "muster", 8, text);
}

void Supervisor::say_held() {
  for (const std::string& text : std::exchange(held_, {})) output_.line(1, "muster", 8, text);
}

void Supervisor::start_all() {
  for (RunningTask& task : tasks_) {
    try {
      begin(task);
    } catch (const Error&) {
      kill_all();
      const auto deadline = SteadyClock::now() + kKillTime;
      while (SteadyClock::now() < deadline &&
             std::any_of(tasks_.begin(), tasks_.end(), [](const RunningTask& other) {
               return other.process.pid > 0 && !other.reaped;
             })) {
        for (RunningTask& other : tasks_) {
          if (other.process.pid > 0 && !other.reaped && peek_exit(other.process.pid)) {
            reap(other);
          }
        }
        poll(nullptr, 0, 5);
      }
      throw;
    }
  }
}

std::size_t Supervisor::index_of(const RunningTask& task) const {
  return static_cast<std::size_t>(&task - tasks_.data());
}

void Supervisor::begin(RunningTask& task) {
  task.process = start(*task.spec, signals_.former(), keeper_.mark());
  keeper_.add(task.process.pid);
  if (options_.on_start) options_.on_start(index_of(task));
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  for (int stream = 0; stream < 2; ++stream) {
    waits.push_back({output_.waiting_fd(stream), POLLOUT, 0});  // -1: poll skips it
  }
  if (!output_.full()) {
    for (RunningTask& task : tasks_) {
      for (int stream = 0; stream < 2; ++stream) waits.push_back({task.fd(stream), POLLIN, 0});
    }
  }
  auto timeout = kTick;
  if (phase_ != Phase::kRunning && phase_ != Phase::kKilled) {
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - SteadyClock::now());
    timeout = std::clamp(left, milliseconds(0), kTick);
  }
  if (poll(waits.data(), waits.size(), static_cast<int>(timeout.count())) <= 0) return;
  for (int stream = 0; stream < 2; ++stream) {
    if (waits[1 + stream].revents != 0) output_.write_some(stream);
  }
  for (std::size_t i = 3; i < waits.size(); ++i) {
    if (waits[i].revents != 0) read_some(tasks_[(i - 3) / 2], static_cast<int>((i - 3) % 2));
  }
}

bool Supervisor::read_some(RunningTask& task, int stream) {
  if (task.fd(stream) < 0) return false;
  std::array<char, 16 * 1024> bytes;
  const ssize_t count = read(task.fd(stream), bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR;
  const auto emit = [&](std::string_view text, bool passing) {
    take_line(task, stream, text, passing);
  };
  if (count == 0) {
    task.lines[stream].finish(emit);
    close(task.fd(stream));
    task.fd(stream) = -1;
    return false;
  }
  task.lines[stream].append({bytes.data(), static_cast<std::size_t>(count)}, emit);
  return true;
}

void Supervisor::take_line(RunningTask& task, int stream, std::string_view text, bool passing) {
  const int color = static_cast<int>(&task - tasks_.data());
  if (passing) {
    output_.passing(stream, task.spec->name, color, text);
    return;
  }
  if (options_.on_line) options_.on_line(index_of(task), text);
  ++task.line_count;
  if (!says_it_waits(text)) task.activity.note_life(SteadyClock::now());
  if (contains_ignoring_case(text, kAddressInUse)) task.in_use_line = task.line_count;
  ++all_lines_;
  if (task.said[stream].add(text)) {
    task.error_stream = stream;
    task.error_line = all_lines_;
  }
  output_.line(stream, task.spec->name, color, text);
}

void Supervisor::look_after(RunningTask& task) {
  if (!task.exit.ended) {
    const auto status = peek_exit(task.process.pid);
    if (!status) return;
    // The signal has ended a shell, and the program that the shell waited for saves.
    if (task.signalled && phase_ == Phase::kStopping && group_lives(task.process.pid)) return;
    task.exit.status = *status;
    task.exit.ended = true;
    task.exit.after_our_signal = task.signalled;
    task.exit.order = ended_++;
    task.exit_time = SteadyClock::now();
  }
  const bool written = task.process.out < 0 && task.process.err < 0;
  if (!written && SteadyClock::now() < task.exit_time + kPipeTime) return;
  reap(task);
  if (options_.on_exit) options_.on_exit(index_of(task), task.exit.status);
  on_exit(task);
}

void Supervisor::reap(RunningTask& task) {
  kill_session(task.process.pid);
  for (int stream = 0; stream < 2; ++stream) {
    // A pipe holds 64 KiB. The bound is there because a process outside the group may keep filling
    // it.
    for (int helping = 0; helping < 64 && read_some(task, stream); ++helping) {
    }
    task.lines[stream].finish(
        [&](std::string_view text, bool passing) { take_line(task, stream, text, passing); });
    output_.passing(stream, task.spec->name, static_cast<int>(&task - tasks_.data()), "");
  }
  close_pipes(task);
  task.exit.last_error = task.said[task.error_stream].first_line();
  task.exit.last_error_lines = task.said[task.error_stream].lines();
  keeper_.remove(task.process.pid);
  waitpid(task.process.pid, nullptr, 0);
  task.reaped = true;
}

void Supervisor::on_signal(int number) {
  if (stop_signal_ != 0) {
    if (number == SIGINT && phase_ != Phase::kKilled) {
      say(options_.others ? "Ctrl-C again: killing all tasks of this machine"
                          : "Ctrl-C again: killing all tasks");
      own_.kills = true;
      kill_all();
    }
    return;
  }
  stop_signal_ = number == SIGHUP ? SIGTERM : number;
  const std::string who = names_of_running();
  say(who.empty() ? signal_name(number) + ": all tasks have ended"
                  : fmt::format("{}: stopping {} (up to {}; Ctrl-C kills at once)",
                                signal_name(number), who, describe_seconds(options_.stop_time)));
  stop_all(stop_signal_, options_.stop_time);
}

void Supervisor::act_on_deadline() {
  if (phase_ == Phase::kRunning || SteadyClock::now() < deadline_) return;
  const std::string who = names_of_running();
  if (who.empty()) return;
  if (phase_ == Phase::kSurvivors) {
    say(fmt::format("{} still running after {}: sending SIGTERM", who,
                    describe_seconds(options_.survivor_time)));
    for (RunningTask& task : tasks_) task.exit.stuck = !task.exit.ended && !task.spec->beside;
    stop_all(SIGTERM, options_.grace);
  } else if (phase_ == Phase::kStopping) {
    say(fmt::format("{} still running after {}: sending SIGKILL", who,
                    describe_seconds(stop_signal_ != 0 ? options_.stop_time : options_.grace)));
    kill_all();
  }
}

void Supervisor::look_for_idle() {
  const auto now = SteadyClock::now();
  if (phase_ != Phase::kRunning || first_done_.empty() || now < next_look_) return;
  const auto every = std::min<milliseconds>(kIdleLook, options_.idle_time / 4);
  next_look_ = now + every;
  const std::string who = names_of_running();
  if (who.empty()) return;
  const auto times = ProcessorTimes::now();
  bool all_idle = true;
  for (RunningTask& task : tasks_) {
    if (task.exit.ended) continue;
    if (const auto seconds = times.of_task(task.process.pid))
      task.activity.look(*seconds, now, every);
    all_idle = all_idle && task.activity.idle() >= options_.idle_time;
  }
  if (all_idle) {
    say(fmt::format("{} ended, and {} did nothing for {}: sending SIGTERM", first_done_, who,
                    describe_seconds(options_.idle_time)));
    for (RunningTask& task : tasks_) task.exit.stuck = !task.exit.ended;
    stop_all(SIGTERM, options_.grace);
  } else if (now - done_time_ >= next_report_) {
    say(fmt::format("{} ended {} ago; waiting for {}", first_done_,
                    describe_seconds(std::chrono::duration_cast<milliseconds>(next_report_)), who));
    next_report_ *= 3;
  }
}

void Supervisor::stop_all(int signal, milliseconds time) {
  phase_ = Phase::kStopping;
  deadline_ = SteadyClock::now() + time;
  send(signal);
}

void Supervisor::kill_all() {
  phase_ = Phase::kKilled;
  deadline_ = SteadyClock::now() + kKillTime;
  send(SIGKILL);
}

void Supervisor::send(int signal) {
  for (RunningTask& task : tasks_) {
    if (task.process.pid <= 0 || task.reaped) continue;
    // A task that ended a moment ago, and was not seen yet, failed by itself.
    if (!task.exit.ended && !peek_exit(task.process.pid)) task.signalled = true;
    signal_group(task.process.pid, signal);
  }
}

bool Supervisor::all_reaped() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [&](const RunningTask& task) {
    return task.reaped && !(task.asks && phase_ == Phase::kRunning);
  });
}

bool Supervisor::given_up() const {
  return phase_ == Phase::kKilled && SteadyClock::now() >= deadline_;
}

std::string Supervisor::names_of_running() const {
  std::vector<std::string_view> names;
  for (const RunningTask& task : tasks_) {
    if (task.process.pid > 0 && !task.exit.ended) names.push_back(task.spec->name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Outcome Supervisor::conclude() {
  std::vector<const ProcessSpec*> specs;
  std::vector<TaskExit> exits;
  bool alike = true;
  for (const RunningTask& task : tasks_) {
    specs.push_back(task.spec);
    exits.push_back(task.exit);
    alike = alike && short_text(task.exit.status) == short_text(tasks_[0].exit.status);
  }
  // The report says for all what one mistake in the command makes of each.
  if (alike) held_.clear();
  say_held();
  Outcome outcome = judge(specs, std::move(exits), stop_signal_);
  outcome.address_in_use = address_in_use_;
  for (const RunningTask& task : tasks_) {
    if (!task.exit.ended) {
      say(fmt::format("{} (process {}) did not end after SIGKILL; giving up", task.spec->name,
                      task.process.pid));
    }
  }
  if (options_.on_end) options_.on_end(outcome);
  if (outcome.address_in_use) return outcome;
  const auto hung = first_done_.empty() ? options_.survivor_time : options_.idle_time;
  if (options_.others) {
    outcome.reasons = reasons(outcome, specs, describe_seconds(hung), /*on_screen=*/false);
    return outcome;
  }
  const bool on_screen =
      outcome.root_cause && all_lines_ - tasks_[*outcome.root_cause].error_line <= kOnScreen;
  for (const std::string& line : reasons(outcome, specs, describe_seconds(hung), on_screen))
    say(line);
  return outcome;
}

void Supervisor::flush() {
  while (output_.waiting_fd(0) >= 0 || output_.waiting_fd(1) >= 0) {
    std::array<pollfd, 3> waits{{{signals_.fd(), POLLIN, 0},
                                 {output_.waiting_fd(0), POLLOUT, 0},
                                 {output_.waiting_fd(1), POLLOUT, 0}}};
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (!signals_.take().empty()) return;
    for (int stream = 0; stream < 2; ++stream) {
      if (waits[1 + stream].revents != 0) output_.write_some(stream);
    }
  }
}

void Supervisor::close_pipes(RunningTask& task) {
  for (int stream = 0; stream < 2; ++stream) {
    if (task.fd(stream) >= 0) close(task.fd(stream));
    task.fd(stream) = -1;
  }
}

}  // namespace internal

Outcome supervise(const std::vector<ProcessSpec>& processes, const SuperviseOptions& options) {
  return internal::Supervisor(processes, options).run();
}

}  // namespace muster::inline v0_1::launch
