// Jobs on Slurm, by its commands: sbatch, scontrol, scancel, and sacct where the site keeps
// accounts. The job's folder must be one that all nodes can reach, as home directories mostly are.
// Thread safety: as Target.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

class SlurmTarget : public Target {
 public:
  // `muster` is the path of the muster binary, on every node; `flags` are flags of sbatch.
  SlurmTarget(std::string muster, std::vector<std::string> flags)
      : muster_(std::move(muster)), flags_(std::move(flags)) {}

  std::string_view name() const override { return "slurm"; }
  std::vector<std::string> check(const JobSpec& job) const override;
  std::string describe(const JobSpec& job, const JobRecord& record) const override;
  // Throws UnclearSubmission if sbatch's answer does not come, and Slurm does not show the job.
  void submit(const JobSpec& job, JobRecord& record) override;
  // By the comment that each submission has.
  bool recognise(JobRecord& record) override;
  JobStatus status(const JobRecord& record) override;
  void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) override;
  void cancel(const JobRecord& record) override;

 private:
  std::string muster_;
  std::vector<std::string> flags_;
};

// Whether the output of `scontrol --oneliner show job` belongs to the job with this batch script,
// and not to one that has the same number on a cluster that was set up anew. Pure.
bool is_job_of_script(std::string_view scontrol, const std::string& script);

// Reads the number of the job with that comment, or one that ends with it, from lines of squeue,
// "NUMBER COMMENT"; nothing if there is none. Pure.
std::optional<std::string> job_of_comment(std::string_view squeue, const std::string& comment);

// Converts the output of `scontrol --oneliner show job` to the state of a job; `cancelled` if this
// account asked for its end. Pure.
JobStatus slurm_status(std::string_view scontrol, bool cancelled);

}  // namespace muster::inline v0_1::jobs
