#include "muster/jobs/local_target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/free_ports.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/job_spec_json.h"
#include "muster/jobs/log_files.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::jobs {
namespace {

using internal::LocalState;

// For the process that stays with a job to say that it does.
constexpr std::chrono::seconds kBeginTime{10};
constexpr std::chrono::milliseconds kBeginLook{2};

int count_of(const JobSpec& job, const char* role) {
  const Pool* pool = job.pool(role);
  return pool == nullptr ? 0 : pool->count;
}

void set_variable(launch::ProcessSpec& process, const std::string& name, const std::string& value) {
  std::erase_if(process.environment, [&](const auto& variable) { return variable.first == name; });
  std::erase_if(process.secrets, [&](const auto& variable) { return variable.first == name; });
  std::erase(process.without, name);
  process.environment.emplace_back(name, value);
}

// Fits the processes of the plan, which are in the order of tasks_of(), to the job.
void fit_to_job(const JobSpec& job, launch::RunPlan& plan) {
  const std::vector<JobTask> tasks = tasks_of(job);
  for (size_t i = 0; i < tasks.size(); ++i) {
    launch::ProcessSpec& process = plan.processes.at(i);
    process.name = tasks[i].name();
    process.argv = words_of(job, *job.pool(tasks[i].role));
    set_variable(process, "TF_CONFIG", tf_config_of(job, tasks[i], plan.addresses));
    set_variable(process, "MUSTER_JOB_ID", job.name);
    for (const auto& [name, value] : variables_of(job, tasks[i]))
      set_variable(process, name, value);
  }
}

// The state of a job. A job that begins just now reports in a moment which process keeps it, and
// its tasks.
std::optional<LocalState> begun_state(const JobRecord& record) {
  auto state = internal::read_state(record.folder);
  const auto end = std::chrono::steady_clock::now() + kBeginTime;
  const auto begins = [&] {
    return is_being_submitted(record) || internal::is_kept(record.folder);
  };
  while (!state && begins() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kBeginLook);
    state = internal::read_state(record.folder);
  }
  // A short job may have ended after the last look: its last state is written before it releases
  // the lock.
  return state ? state : internal::read_state(record.folder);
}

std::string last_line(const std::string& path) {
  std::string last;
  read_logs(
      {{path}}, {.tail = 1}, [] { return true; }, [&](std::string_view line) { last = line; });
  return last;
}

}  // namespace

launch::RunOptions run_options(const JobSpec& job) {
  launch::RunOptions options;
  options.workers = count_of(job, "worker");
  options.chief = count_of(job, "chief") > 0;
  options.ps = count_of(job, "ps");
  options.evaluator = count_of(job, "evaluator") > 0;
  options.restart = job.scheduling.restarts;
  options.command = job.pools.empty() ? job.program : words_of(job, job.pools.front());
  options.adjust = [&job](launch::RunPlan& plan) { fit_to_job(job, plan); };
  return options;
}

std::vector<std::string> LocalTarget::check(const JobSpec& job) const {
  if (count_of(job, "evaluator") > 1) {
    throw invalid_argument(fmt::format("the job has {} evaluators", count_of(job, "evaluator")),
                           "one evaluates for all others: write evaluatorCount: 1");
  }
  std::vector<std::string> notes;
  for (const Pool& pool : job.pools) {
    check_environment(pool);
    if (job.program.empty() && pool.command.empty()) {
      throw invalid_argument(fmt::format("there is no program for {}", pool.role),
                             "name it in front of two dashes: muster submit ... PROGRAM -- "
                             "ARGUMENTS");
    }
    if (pool.accelerator.count > 0) {
      notes.push_back(
          fmt::format("{}: {} {} each is not asked for here; tasks use what GPUs they "
                      "find",
                      pool.role, pool.accelerator.count, pool.accelerator.type));
    }
  }
  const auto with_image =
      std::ranges::find_if(job.pools, [](const Pool& pool) { return !pool.image.empty(); });
  if (with_image != job.pools.end()) {
    notes.push_back(fmt::format("the image {} is not used here: the program of this machine runs",
                                with_image->image));
  }
  return notes;
}

std::string LocalTarget::describe(const JobSpec& job, const JobRecord& record) const {
  const launch::RunOptions options = run_options(job);
  const int tasks = std::max(1, launch::cluster_size(options));
  launch::RunPlan plan =
      launch::plan_run(options, launch::this_machine(), free_ports(tasks), Environment::process());
  options.adjust(plan);
  return fmt::format("# {}, in {}\n", record.name, record.folder) + launch::describe(plan);
}

void LocalTarget::submit(const JobSpec& job, JobRecord& record) {
  local_file_system()
      .write_atomically(join_path(record.folder, internal::kJobFile), to_json_text(job))
      .value();
  const std::string log = join_path(record.folder, internal::kAllLog);
  const FileDescriptor output(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!output.is_open()) throw from_errno(errno, "cannot open " + log);
  const pid_t keeper = launch::spawn({.name = "the job " + job.name,
                                      .argv = {muster_, "jobs", "keep", record.folder},
                                      .out = output.get(),
                                      .err = output.get(),
                                      .group = launch::ChildSpec::Group::kOwnSession,
                                      // Until it has begun: otherwise a job could start after its
                                      // submission was killed, without a record.
                                      .dies_with_parent = true});
  record.id = std::to_string(keeper);
  const auto end = std::chrono::steady_clock::now() + kBeginTime;
  while (!internal::read_state(record.folder)) {
    const bool gone = waitpid(keeper, nullptr, WNOHANG) == keeper;
    if ((gone && !internal::read_state(record.folder)) || std::chrono::steady_clock::now() > end) {
      if (!gone) kill(keeper, SIGKILL);
      throw Error(ErrorKind::kUnavailable,
                  fmt::format("the job {} did not begin: {}", job.name, last_line(log)),
                  "its log is " + log);
    }
    std::this_thread::sleep_for(kBeginLook);
  }
}

JobStatus LocalTarget::status(const JobRecord& record) {
  // Checked before the state is read: a keeper writes its last state before it ends.
  const bool kept = internal::is_kept(record.folder);
  const auto state = internal::read_state(record.folder);
  if (!state && kept) return {.state = JobState::kQueued, .detail = "it begins"};
  if (!state) return {.detail = "it never began", .forgotten = true};
  JobStatus status = state->status;
  if (is_final(status.state)) return status;
  const bool cancelled =
      local_file_system().exists(join_path(record.folder, internal::kCancelFile)).value();
  if (kept) {
    if (!cancelled) return status;
    status.state = JobState::kEnding;
    for (TaskStatus& task : status.tasks) {
      if (!is_final(task.state)) task.state = JobState::kEnding;
    }
    return status;
  }
  // Machines may share a folder and not its locks.
  if (!internal::is_here(state->keeper)) {
    status.state = JobState::kUnknown;
    status.detail =
        fmt::format("it was started on {}, where it can be asked for", state->keeper.host);
    return status;
  }
  // It may have been cancelled before it could read signals.
  status.state = cancelled ? JobState::kCancelled : JobState::kFailed;
  if (!cancelled)
    status.detail = "the process that kept it is gone: it was killed, or the machine restarted";
  for (TaskStatus& task : status.tasks) {
    if (!is_final(task.state)) task.state = status.state;
  }
  return status;
}

void LocalTarget::logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) {
  std::string file = internal::kAllLog;
  const auto state = begun_state(record);
  if (!options.task.empty()) {
    std::vector<std::string> names;
    for (const TaskStatus& task : state.value_or(LocalState()).status.tasks)
      names.push_back(task.name);
    check_task(record, options.task, names);
    file = options.task + ".log";
  }
  read_logs(
      {{join_path(record.folder, file)}}, options,
      [&] { return !internal::is_kept(record.folder); }, sink);
}

void LocalTarget::cancel(const JobRecord& record) {
  const auto state = begun_state(record);
  if (!state || is_final(state->status.state)) return;
  internal::check_is_here(state->keeper, record.name);
  if (!internal::is_kept(record.folder)) return;
  local_file_system()
      .write_atomically(join_path(record.folder, internal::kCancelFile), std::string_view())
      .value();
  internal::end_keeper(state->keeper);
}

}  // namespace muster::inline v0_1::jobs
