// Looks at jobs for the commands that submit and show them. Thread safety: the main thread.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "muster/base/error.h"
#include "muster/jobs/job_record.h"
#include "muster/jobs/target.h"
#include "muster/jobs/targets.h"

namespace muster::app {

// While it exists, Ctrl-C and SIGTERM do not end this process, but set was_interrupted(); a second
// Ctrl-C ends it. A second SIGTERM does not: a search gets one whenever it is cancelled.
class InterruptScope {
 public:
  // `last_words`, a line that outlives the scope, is printed where the second Ctrl-C ends the
  // process.
  explicit InterruptScope(const char* last_words = "");
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
};
bool was_interrupted();

// A job that another command submits just now.
class BeingSubmitted : public Error {
 public:
  explicit BeingSubmitted(const jobs::JobRecord& record);
};

// A job whose submission did not end, and that is not known on its target.
class NotSubmitted : public Error {
 public:
  // `target_is_away`: the target did not answer whether the job exists.
  NotSubmitted(const jobs::JobRecord& record, const std::string& why, bool target_is_away);
  bool target_is_away() const { return target_is_away_; }

 private:
  bool target_is_away_;
};

// If the submission was cut off, asks the target whether the job exists anyway, and completes the
// record. Throws NotSubmitted, an InvalidArgument, if it does not exist, and BeingSubmitted, which
// is Unavailable.
void check_submitted(jobs::JobRecord& record, const jobs::TargetOptions& options);

// Asks the record's target. Throws Unavailable or Timeout when it does not answer, and
// InvalidArgument for a job that was not submitted.
jobs::JobStatus ask_for(jobs::JobRecord record, const jobs::TargetOptions& options);
// The same. A target that cannot be asked is JobState::kUnknown, and says why.
jobs::JobStatus status_of(const jobs::JobRecord& record, const jobs::TargetOptions& options);

// Asks for many jobs in one command, as status_of(). A place that did not answer once is not waited
// for again.
class Asking {
 public:
  explicit Asking(const jobs::TargetOptions& options) : options_(options) {}
  jobs::JobStatus status(const jobs::JobRecord& record);

 private:
  const jobs::TargetOptions& options_;
  // By a target's name, and the part of it that answers.
  std::map<std::pair<std::string, std::string>, jobs::JobStatus> away_;
};

// Prints the job's log until it has ended, and returns its exit code: 0 when it succeeded. Ctrl-C
// ends the printing, not the job.
int follow_job(jobs::Target& target, const jobs::JobRecord& record, jobs::LogOptions options = {});
// The same of a search, with the logs of its trials.
int follow_search(const jobs::JobRecord& record, const jobs::TargetOptions& target,
                  jobs::LogOptions options = {});

}  // namespace muster::app
