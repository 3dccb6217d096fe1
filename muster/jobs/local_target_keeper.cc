// The process that stays with a job of this machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/job_spec_json.h"
#include "muster/jobs/local_target.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs {
namespace {

// Sends this process SIGTERM when the job has run for its time, which stops its tasks as cancelling
// does: they save first. Timers are not inherited by children.
class TimeLimit {
 public:
  explicit TimeLimit(int64_t seconds) {
    if (seconds <= 0) return;
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGTERM;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0)
      throw from_errno(errno, "cannot make a timer");
    set_ = true;
    itimerspec time{};
    time.it_value.tv_sec = seconds;
    timer_settime(timer_, 0, &time, nullptr);
  }
  ~TimeLimit() {
    if (set_) timer_delete(timer_);
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  // Whether the time is over.
  bool over() const {
    itimerspec left{};
    return set_ && timer_gettime(timer_, &left) == 0 && left.it_value.tv_sec == 0 &&
           left.it_value.tv_nsec == 0;
  }

 private:
  timer_t timer_{};
  bool set_ = false;
};

// The logs of the tasks, each a file, and the state next to them.
class Keeper {
 public:
  Keeper(std::string folder, const JobSpec& job) : folder_(std::move(folder)) {
    state_.keeper = internal::keeper_of(getpid());
    state_.status.state = JobState::kRunning;
    for (const JobTask& task : tasks_of(job)) {
      state_.status.tasks.push_back({.name = task.name(), .state = JobState::kRunning});
      const std::string path = join_path(folder_, task.name() + ".log");
      logs_.emplace_back(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
      if (!logs_.back().is_open()) throw from_errno(errno, "cannot open " + path);
    }
    starts_.resize(logs_.size());
    save();
  }

  void watch(launch::SuperviseOptions& options) {
    options.on_start = [this](size_t task) { on_start(task); };
    options.on_line = [this](size_t task, std::string_view line) { on_line(task, line); };
    options.on_exit = [this](size_t task, const launch::ExitStatus& status) {
      state_.status.tasks[task].exit_code = status.shell_code();
      state_.status.tasks[task].state = status.ok() ? JobState::kSucceeded : JobState::kFailed;
      if (!status.ok() && failed_.empty())
        failed_ = failure_of(state_.status.tasks[task].name, status.shell_code());
      save();
    };
    // The task that ends first need not be the one that the others followed.
    options.on_end = [this](const launch::Outcome& outcome) {
      if (!outcome.root_cause) return;
      const launch::TaskExit& exit = outcome.tasks[*outcome.root_cause];
      const std::string& name = state_.status.tasks[*outcome.root_cause].name;
      failed_ = exit.stuck ? name + ": it hung, and was ended"
                           : failure_of(name, exit.status.shell_code());
    };
  }

  void finish(int exit_code, const std::string& detail, bool cancelled) {
    state_.status.exit_code = exit_code;
    state_.status.detail = detail;
    state_.status.state = exit_code == 0 ? JobState::kSucceeded
                          : cancelled    ? JobState::kCancelled
                                         : JobState::kFailed;
    for (TaskStatus& task : state_.status.tasks) {
      if (!is_final(task.state)) task.state = state_.status.state;
    }
    tell_of_cancelling(state_.status);
    save();
  }

  // The task to blame among the tasks since all were started, as failure_of() names it; empty if
  // none failed.
  const std::string& failed_task() const { return failed_; }

 private:
  void on_start(size_t task) {
    failed_.clear();
    if (++starts_[task] == 1) return;
    state_.status.restarts = std::max(state_.status.restarts, starts_[task] - 1);
    state_.status.tasks[task] = {.name = state_.status.tasks[task].name,
                                 .state = JobState::kRunning};
    save();
  }

  void on_line(size_t task, std::string_view line) {
    std::string text(line);
    text += '\n';
    // A log that cannot be written, as on a full disk, is no reason to stop the training.
    for (size_t done = 0; done < text.size();) {
      const ssize_t count = write(logs_[task].get(), text.data() + done, text.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      done += static_cast<size_t>(count);
    }
  }

  // A state that cannot be written is no error of the job either.
  void save() {
    try {
      internal::write_state(folder_, state_);
    } catch (const Error& error) {
      if (std::exchange(told_, true)) return;
      fmt::print(stderr, "the state of the job cannot be written: {}\n", error.message());
    }
  }

  const std::string folder_;
  internal::LocalState state_;
  std::vector<FileDescriptor> logs_;
  std::vector<int> starts_;  // how often each task was started
  std::string failed_;
  bool told_ = false;
};

}  // namespace

int keep_local_job(const std::string& folder) {
  const FileDescriptor lock = internal::lock_folder(folder);
  if (!lock.is_open()) {
    throw invalid_argument(fmt::format("another process keeps the job in {}", folder),
                           "submit the job anew");
  }
  // Others see from now on that the job is kept, so it need not end with its submission any more.
  prctl(PR_SET_PDEATHSIG, 0);
  const std::string path = join_path(folder, internal::kJobFile);
  const JobSpec job = job_spec_from_json(local_file_system().read_file(path).value(), path);
  Keeper keeper(folder, job);
  const TimeLimit limit(job.scheduling.max_running_seconds);
  launch::RunOptions options = run_options(job);
  // Both streams go to the log that this process writes itself.
  options.supervise.out_fd = STDOUT_FILENO;
  options.supervise.err_fd = STDOUT_FILENO;
  keeper.watch(options.supervise);
  const auto cancelled = [&] {
    return local_file_system().exists(join_path(folder, internal::kCancelFile)).value_or(false);
  };
  try {
    const int code = launch::run(options);
    const bool timed_out = code != 0 && limit.over() && !cancelled();
    keeper.finish(
        code,
        timed_out ? fmt::format("it ran for longer than {} s", job.scheduling.max_running_seconds)
                  : keeper.failed_task(),
        cancelled());
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n{}{}\n", error.message(),
               error.hint().empty() ? "" : "hint: ", error.hint());
    keeper.finish(exit_code(error.kind()), error.message(), cancelled());
    return exit_code(error.kind());
  }
}

}  // namespace muster::inline v0_1::jobs
