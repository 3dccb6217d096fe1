// A place where jobs run: this machine, Slurm, Kubernetes, Vertex AI. Thread safety: one thread at
// a time.
//
// A job that was submitted is known by its JobRecord, of which the target fills in what it needs to
// find the job again (`id`, `details`). The record's folder is the target's to write into.
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

// A job, and its tasks where the target tells of them.
struct JobStatus {
  JobState state = JobState::kUnknown;
  std::optional<int> exit_code = {};  // of the job, when it has ended
  std::string detail = {};            // one line for people: why it waits, what failed
  int restarts = 0;                   // how often it was started again
  std::vector<TaskStatus> tasks = {};
  // Of one that is unknown, or was cancelled: the target answered that it has no such job, so
  // nothing of it runs, and its name is free there.
  bool forgotten = false;
  // Of one that has ended: the target may start it, or tasks of it, again by itself, as after a
  // preemption, or where a role has not ended.
  bool may_return = false;
  // Of one that has failed: nothing was wrong with it, and the target mostly puts all of it back
  // into its queue, as after a preemption.
  bool was_taken_away = false;
  // For a search that has ended: the trials that still run, as after its process was killed, or may
  // still begin; and the numbers of those that run.
  int left = 0;
  std::vector<int> left_running = {};
};

// Whether a task with this exit code was ended by others, or asks to be started again because they
// ended: 130, 137, 138 and 143. Of several failures another one is the cause.
bool ended_by_others(int exit_code);
// What became of a task that failed, for people: "worker-1: exit code 2"; of one that was killed,
// as 128 + n says, "worker-1: killed by SIGKILL (kill -9, or the machine ran out of memory)".
std::string failure_of(const std::string& task, int exit_code);
// How a task ended, by its exit code as shells report it: for 137 and codes of other signals, but
// those that programs return themselves (130, 138, 143), the signal.
launch::ExitStatus exit_status_of(int exit_code);
// Whether tasks of it are there: of a job that has ended some may be, as on Kubernetes, where those
// of one role do not know that another's have failed.
bool tasks_go_on(const JobStatus& status);
// Whether it has ended for good: nothing of it runs, and nothing begins again by itself.
bool is_over(const JobStatus& status);

// For a job that was cancelled: tasks that ended by it (exit codes 143, 138, 130, and 137 of those
// that were killed) are cancelled and have not failed, and the detail says so in words. Does
// nothing for other jobs.
void tell_of_cancelling(JobStatus& status);

// Which lines of a job's log are wanted.
struct LogOptions {
  std::string task = {};         // "worker-0"; empty: all tasks
  bool follow = false;           // until the job has ended
  std::optional<int> tail = {};  // of what is there already only so many lines
  // Asked while lines are awaited; true ends the following.
  std::function<bool()> interrupted = [] { return false; };
};
// Takes one line, without its end.
using LogSink = std::function<void(std::string_view line)>;

// The name that was probably meant by `name`; nothing if they differ only by their numbers:
// "worker-7" is no slip for "worker-1". Nor are short names, which are near to all others.
std::optional<std::string> meant_by(const std::string& name, std::vector<std::string> names);
// Throws NotFound, with the name that may be meant, unless `task` is one of a job's tasks.
void check_task(const JobRecord& record, const std::string& task,
                const std::vector<std::string>& tasks);

// A job was sent, and no answer says whether it arrived: it may be there, or still come.
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
  // Throws InvalidArgument for a job that cannot run here as it is, naming what and the fix.
  // Returns a line for each thing that the job asks for and this target does without.
  virtual std::vector<std::string> check(const JobSpec& job) const = 0;
  // What submit() would start, for --dry-run: text of the kind that the target takes (commands, a
  // batch script, manifests), with secrets left out. It starts nothing and writes nothing.
  virtual std::string describe(const JobSpec& job, const JobRecord& record) const = 0;
  // Fills in the details by which recognise() finds the job, before it is submitted.
  virtual void locate(const JobSpec& /*job*/, JobRecord& /*record*/) const {}
  // Starts the job, whose folder is there. Throws Error when it cannot; then nothing runs, unless
  // it is an UnclearSubmission.
  virtual void submit(const JobSpec& job, JobRecord& record) = 0;
  // Looks for a job whose submission did not end: submit() threw UnclearSubmission, or its process
  // was killed. Where it is there the record becomes what submit() would have made of it; else
  // false is returned. Throws what status() throws.
  virtual bool recognise(JobRecord& /*record*/) { return false; }
  // Throws Unavailable when the target cannot be asked.
  virtual JobStatus status(const JobRecord& record) = 0;
  // Which part of the target answers for the job: where that is away for one job, it is for all
  // others of the same word.
  virtual std::string where(const JobRecord& /*record*/) const { return ""; }
  // Throws NotFound for a task that the job does not have.
  virtual void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) = 0;
  // Whether the name of a job that has ended can be given to another one there.
  virtual bool frees_names() const { return true; }
  // Asks the job to end: its tasks save what they have first. It does not wait for that, and is
  // nothing for a job that has ended.
  virtual void cancel(const JobRecord& record) = 0;
};

}  // namespace muster::inline v0_1::jobs
