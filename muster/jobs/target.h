// A place where jobs run: this machine, Slurm, Kubernetes, Vertex AI. Thread safety: one thread at
// a time.
//
// A submitted job is known by its JobRecord. The target fills in the fields by which it finds the
// job again (`id`, `details`), and may write into the record's folder.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/job_spec.h"
#include "muster/launch/exit_status.h"

namespace muster::inline v0_1::jobs {

// Where a job, or a task, is.
enum class JobState {
  kQueued,
  kRunning,
  kEnding,  // it was asked to end, and its tasks save; or they have ended, and it is cleared away
  kSucceeded,
  kFailed,
  kCancelled,
  kUnknown,  // the target has forgotten it (JobStatus::forgotten), or does not say how it is
};
// "queued", "running", "ending", "succeeded", "failed", "cancelled", "unknown".
std::string_view to_string(JobState state);
// Whether it will not change any more.
bool is_final(JobState state);
// Whether something of it runs or will: it is queued, running or ending.
bool goes_on(JobState state);

// One task of a job.
struct TaskStatus {
  std::string name{};  // "worker-0"
  JobState state = JobState::kUnknown;
  std::optional<int> exit_code = {};  // 128 + n for signal n
  std::string place = {};             // host or pod; empty: not known
};

// A job, and its tasks if the target reports them.
struct JobStatus {
  JobState state = JobState::kUnknown;
  std::optional<int> exit_code = {};  // of the job, when it has ended
  std::string detail = {};            // one line for people: why it waits, or what failed
  int restarts = 0;                   // how often it was started again
  std::vector<TaskStatus> tasks = {};
  // For an unknown or cancelled job: the target answered that it has no such job, so nothing of it
  // runs, and its name is free there.
  bool forgotten = false;
  // For an ended job: the target may start it, or tasks of it, again by itself, as after a
  // preemption, or if a role has not ended.
  bool may_return = false;
  // For a failed job: it was not at fault, and the target mostly puts all of it back into its
  // queue, as after a preemption.
  bool was_taken_away = false;
  // For a search that has ended: the trials that run on, as after its process was killed, or may
  // still begin; and the numbers of the running ones.
  int left = 0;
  std::vector<int> left_running = {};
};

// Whether a task with this exit code was ended by others, or asks to be started again because they
// ended: 130, 137, 138 and 143. If several tasks failed, another one is the cause.
bool ended_by_others(int exit_code);
// How a failed task ended, for people: "worker-1: exit code 2"; for a killed one, by 128 + n,
// "worker-1: killed by SIGKILL (kill -9, or the machine ran out of memory)".
std::string failure_of(const std::string& task, int exit_code);
// How a task ended, by its exit code as shells report it: for 137 and codes of other signals,
// except codes that programs return themselves (130, 138, 143), the signal.
launch::ExitStatus exit_status_of(int exit_code);
// Whether tasks of it still exist: this is possible for an ended job, as on Kubernetes, where the
// tasks of one role do not know that another's have failed.
bool tasks_go_on(const JobStatus& status);
// Whether it has ended for good: nothing of it runs, and nothing begins again by itself.
bool is_over(const JobStatus& status);

// For a cancelled job: tasks that ended by the cancelling (exit codes 143, 138, 130, and 137 of
// killed ones) are cancelled and have not failed, and the detail says so in words. Does nothing for
// other jobs.
void tell_of_cancelling(JobStatus& status);

// Which lines of a job's log are wanted.
struct LogOptions {
  std::string task = {};         // "worker-0"; empty: all tasks
  bool follow = false;           // until the job has ended
  std::optional<int> tail = {};  // only this many of the existing lines
  // Asked while lines are awaited; true ends the following.
  std::function<bool()> interrupted = [] { return false; };
};
// Takes one line, without its end.
using LogSink = std::function<void(std::string_view line)>;

// The name that was probably meant by `name`; nothing if they differ only by their numbers:
// "worker-7" is no slip for "worker-1". Short names are never corrected: they are near to all
// others.
std::optional<std::string> meant_by(const std::string& name, std::vector<std::string> names);
// Throws NotFound, with the name that may be meant, unless `task` is one of a job's tasks.
void check_task(const JobRecord& record, const std::string& task,
                const std::vector<std::string>& tasks);

// A job was sent, and no answer says whether it arrived: it may exist, or still appear.
class UnclearSubmission : public Error {
 public:
  // `error` is why it is not known.
  UnclearSubmission(const Error& error, const JobRecord& record);
};

class Target {
 public:
  virtual ~Target() = default;

  // As `--to` names it: "local".
  virtual std::string_view name() const = 0;
  // Throws InvalidArgument for a job that cannot run here unchanged, naming the cause and the fix.
  // Returns a line for each request of the job that this target ignores.
  virtual std::vector<std::string> check(const JobSpec& job) const = 0;
  // Describes what submit() would start, for --dry-run: text of the kind that the target takes
  // (commands, a batch script, manifests), with secrets left out. It starts nothing and writes
  // nothing.
  virtual std::string describe(const JobSpec& job, const JobRecord& record) const = 0;
  // Fills in the details by which recognise() finds the job, before it is submitted.
  virtual void locate(const JobSpec& /*job*/, JobRecord& /*record*/) const {}
  // Starts the job, whose folder exists. Throws Error if it cannot; then nothing runs, unless it is
  // an UnclearSubmission.
  virtual void submit(const JobSpec& job, JobRecord& record) = 0;
  // Looks for a job whose submission did not end: submit() threw UnclearSubmission, or its process
  // was killed. If the job exists, completes the record as submit() would have; otherwise returns
  // false. Throws the errors of status().
  virtual bool recognise(JobRecord& /*record*/) { return false; }
  // Throws Unavailable when the target cannot be asked.
  virtual JobStatus status(const JobRecord& record) = 0;
  // The part of the target that answers for the job: if it is away for one job, it is away for all
  // others with the same text.
  virtual std::string where(const JobRecord& /*record*/) const { return ""; }
  // Throws NotFound for a task that the job does not have.
  virtual void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) = 0;
  // Whether the name of a job that has ended can be given to another one there.
  virtual bool frees_names() const { return true; }
  // Asks the job to end: its tasks save their state first. It does not wait for that, and does
  // nothing for a job that has ended.
  virtual void cancel(const JobRecord& record) = 0;
};

}  // namespace muster::inline v0_1::jobs
