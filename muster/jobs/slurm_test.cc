// What is decided about jobs on Slurm; on a real one: apps/muster/jobs_command_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/jobs/slurm_script.h"
#include "muster/jobs/slurm_target.h"
#include "muster/jobs/slurm_task.h"
#include "muster/launch/subprocess.h"

namespace muster::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

JobSpec job_of(int workers) {
  JobSpec job;
  job.name = "leaf";
  job.program = {"train"};
  job.pools = {{.role = "chief", .count = 1}, {.role = "worker", .count = workers}};
  return job;
}

TEST(SlurmTest, TasksListenWhereSlurmPutThem) {
  const Environment environment{{"SLURM_STEP_NODELIST", "gpu[01-02],login7"},
                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                                {"SLURM_JOB_ID", "3"}};
  EXPECT_THAT(
      slurm_addresses(job_of(4), environment, 0),
      ElementsAre("gpu01:20192", "gpu01:20193", "gpu02:20192", "gpu02:20193", "login7:20192"));
  // Other ports for another attempt, since somebody may have taken these.
  EXPECT_EQ(slurm_addresses(job_of(4), environment, 1).front(), "gpu01:28111");
  EXPECT_THAT(
      slurm_addresses(
          job_of(1),
          environment.with("SLURM_STEP_NODELIST", "gpu01").with("SLURM_STEP_TASKS_PER_NODE", "2"),
          0),
      ElementsAre("127.0.0.1:20192", "127.0.0.1:20193"));
  EXPECT_THAT(message_of([&] { slurm_addresses(job_of(5), environment, 0); }),
              AllOf(HasSubstr("has 6 tasks"), HasSubstr("2(x2),1")));
  EXPECT_THAT(message_of([&] { slurm_addresses(job_of(1), {}, 0); }),
              HasSubstr("SLURM_STEP_NODELIST is not set"));
}

std::string script(const JobSpec& job, const std::vector<std::string>& flags = {}) {
  return slurm_script(job, {.muster = "/opt/it's/muster", .folder = "/home/a b", .flags = flags});
}

TEST(SlurmTest, TheScriptIsOneThatBashReads) {
  JobSpec job = job_of(2);
  job.scheduling.max_running_seconds = 3661;
  job.pools[1].accelerator = {"T4", 2};
  const std::string text = script(job, {"--partition=gpu", "--time=5"});
  EXPECT_TRUE(
      launch::run_to_end({"/bin/bash", "-n", "-c", text}, std::chrono::seconds(30)).status.ok());
  EXPECT_THAT(text, AllOf(HasSubstr("#SBATCH --ntasks=3\n"), HasSubstr("#SBATCH --time=5\n"),
                          Not(HasSubstr("--time=1:01:01")), HasSubstr("--gpus-per-task=2\n"),
                          HasSubstr("--kill-on-bad-exit=1"), HasSubstr("folder='/home/a b'\n")));
  EXPECT_THAT(script(job), HasSubstr("#SBATCH --time=1:01:01\n"));
  EXPECT_THAT(script(job, {"--gres=gpu:t4:1"}), Not(HasSubstr("--gpus-per-task")));
  EXPECT_THAT(script(job, {"--no-requeue"}), Not(HasSubstr("#SBATCH --requeue")));
  // With servers, the others go on without a task that is lost.
  job.pools.push_back({.role = "ps", .count = 1});
  EXPECT_THAT(script(job), HasSubstr("--kill-on-bad-exit=0"));
  EXPECT_THAT(message_of([&] { script(job, {"-p", "gpu"}); }), HasSubstr("'-p'"));
  EXPECT_THAT(message_of([&] { script(job, {"--x\nrm"}); }), HasSubstr("no flag of sbatch"));
}

TEST(SlurmTest, StatesOfSlurmAreStatesOfJobs) {
  const auto state = [](const std::string& word, bool cancelled = false) {
    return slurm_status("JobId=7 JobName=JobState=x JobState=" + word +
                            " Reason=None Restarts=2 ExitCode=3:0",
                        cancelled)
        .state;
  };
  EXPECT_EQ(state("PENDING"), JobState::kQueued);
  EXPECT_EQ(state("REQUEUED"), JobState::kQueued);
  EXPECT_EQ(state("COMPLETING"), JobState::kRunning);
  EXPECT_EQ(state("COMPLETED"), JobState::kSucceeded);
  EXPECT_EQ(state("CANCELLED"), JobState::kCancelled);
  EXPECT_EQ(state("OUT_OF_MEMORY"), JobState::kFailed);
  EXPECT_EQ(state("FAILED", true), JobState::kCancelled);
  EXPECT_EQ(state("NEWER_THAN_US"), JobState::kUnknown);
  const JobStatus failed =
      slurm_status("JobState=FAILED Reason=NonZeroExitCode Restarts=2 ExitCode=0:9", false);
  EXPECT_EQ(failed.restarts, 2);
  EXPECT_EQ(failed.exit_code, 137);
  EXPECT_THAT(failed.detail, HasSubstr("NonZeroExitCode"));
  EXPECT_THAT(slurm_status("JobState=PENDING Reason=Priority", false).detail, "waits: Priority");
}

}  // namespace
}  // namespace muster::jobs
