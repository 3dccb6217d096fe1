// Jobs on this machine, as `muster run` starts them. A process of its own stays with each, so a job
// continues when the terminal is gone; it ends with the machine. Thread safety: as Target.
#pragma once

#include <string>

#include "muster/jobs/target.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {

class LocalTarget : public Target {
 public:
  // `muster` is the path of the muster binary, which becomes the process that stays with a job.
  explicit LocalTarget(std::string muster) : muster_(std::move(muster)) {}

  std::string_view name() const override { return "local"; }
  std::vector<std::string> check(const JobSpec& job) const override;
  std::string describe(const JobSpec& job, const JobRecord& record) const override;
  void submit(const JobSpec& job, JobRecord& record) override;
  JobStatus status(const JobRecord& record) override;
  void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) override;
  void cancel(const JobRecord& record) override;

 private:
  std::string muster_;
};

// The run of a job on this machine: its counts, and each task's arguments and variables. `job` must
// outlive it.
launch::RunOptions run_options(const JobSpec& job);

// Runs the job whose folder LocalTarget::submit() has written, and returns its exit code. It is
// the process that stays with the job: it writes the state and the logs into the folder.
int keep_local_job(const std::string& folder);

}  // namespace muster::inline v0_1::jobs
