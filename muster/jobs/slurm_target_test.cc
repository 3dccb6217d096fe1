// What is decided about jobs on Slurm; on a real one: apps/jobs/jobs_slurm_test.cc.
#include "muster/jobs/slurm_target.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/final_status.h"
#include "muster/jobs/slurm_script.h"
#include "muster/jobs/slurm_task.h"
#include "muster/launch/subprocess.h"

namespace muster::inline v0_1::jobs {
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
  // Slurm ends a word at a blank, and has its own words for what follows a '%'.
  EXPECT_THAT(text, HasSubstr("#SBATCH --output=\"/home/a b/batch.log\"\n"));
  EXPECT_THAT(slurm_script(job, {.muster = "m", .folder = "/50%j", .flags = {}}),
              HasSubstr("#SBATCH --output=/50%%j/batch.log\n"));
  EXPECT_THAT(script(job, {"--gres=gpu:t4:1"}), Not(HasSubstr("--gpus-per-task")));
  EXPECT_THAT(script(job, {"--no-requeue"}), Not(HasSubstr("#SBATCH --requeue")));
  // With servers, the others continue without a task that is lost.
  job.pools.push_back({.role = "ps", .count = 1});
  EXPECT_THAT(script(job), HasSubstr("--kill-on-bad-exit=0"));
  EXPECT_THAT(message_of([&] { script(job, {"-p", "gpu"}); }), HasSubstr("'-p'"));
  EXPECT_THAT(message_of([&] { script(job, {"--x\nrm"}); }), HasSubstr("not a flag of sbatch"));
  // What would make several jobs of one, or one that cannot be asked for.
  EXPECT_THAT(error_of([&] { script(job, {"--array=0-3"}); }).hint(), HasSubstr("use a search"));
  EXPECT_THAT(error_of([&] { script(job, {"--array"}); }).message(), HasSubstr("several jobs"));
  EXPECT_THAT(error_of([&] { script(job, {"--clusters=a,b"}); }).hint(),
              HasSubstr("from a login node of that cluster"));
  EXPECT_THAT(script(job, {"--cluster-constraint=big"}), HasSubstr("--cluster-constraint=big"));
  // sbatch reads them from variables, too.
  EXPECT_NO_THROW(check_sbatch_variables({{"SBATCH_PARTITION", "gpu"}, {"SLURM_CLUSTERS", ""}}));
  const auto of_variable = [](const char* name, const char* value) {
    return message_of([&] { check_sbatch_variables({{name, value}}); });
  };
  EXPECT_THAT(of_variable("SBATCH_ARRAY_INX", "0-3"),
              HasSubstr("'--array=0-3' of SBATCH_ARRAY_INX would make several jobs"));
  EXPECT_THAT(of_variable("SBATCH_CLUSTERS", "a"), HasSubstr("of SBATCH_CLUSTERS is for another"));
  EXPECT_THAT(of_variable("SLURM_CLUSTERS", "a"), HasSubstr("of SLURM_CLUSTERS is for another"));
}

// The script in a shell, with commands of Slurm's that write what they were asked, and a clock that
// stands still except for what a step writes into "now".
class SlurmTimeTest : public ::testing::Test {
 protected:
  SlurmTimeTest() {
    tool("srun", "exec sh \"$FOLDER/step\"");
    tool("squeue",
         "case $* in *--steps*) printf '7.batch\\n7.0\\n7.extern\\n';; *) cat \"$FOLDER/left\";; "
         "esac");
    tool("scontrol", "exit 1");  // so that the script does not wait for its end
    // As Slurm's: killed is a step alone, or the job with this script.
    tool("scancel",
         "job=$(cat \"$FOLDER/step_pid\"); [ \"$*\" = '--signal=KILL 7' ] && job=$PPID\n"
         "name=${1#*=}; exec kill -$name $job");
    tool("date", "cat \"$FOLDER/now\"");
    write("left", "1:00:00");
  }
  void write(const std::string& name, const std::string& text) {
    local_file_system().write_atomically(folder_ / name, std::string_view(text)).value();
  }
  std::string read(const std::string& name) {
    return std::string(trim(local_file_system().read_file(folder_ / name).value_or("")));
  }
  void tool(const std::string& name, const std::string& lines) {
    write(name, "#!/bin/sh\necho " + name + " \"$@\" >> \"$FOLDER/asked\"\n" + lines + "\n");
    chmod((folder_ / name).c_str(), 0700);
  }
  // Starts the job once, and returns its exit code. `step` is what srun does.
  int start(int64_t most, const std::string& step) {
    std::remove((folder_ / "asked").c_str());
    write("now", "0");
    JobSpec job = job_of(1);
    job.scheduling.max_running_seconds = most;
    write("step", step);
    write("script",
          "export FOLDER='" + folder_.path() + "' SLURM_JOB_ID=7 PATH='" + folder_.path() +
              "':$PATH\n" +
              slurm_script(job, {.muster = "muster", .folder = folder_.path(), .flags = {}}));
    return launch::run_to_end({"/bin/bash", folder_ / "script"}, std::chrono::seconds(60))
        .status.code;
  }
  // A step that says that `seconds` have passed.
  static std::string after(int seconds) {
    return fmt::format("echo {} > \"$FOLDER/now\"\n", seconds);
  }
  // A step that does not save, of a job of which 2 of 20 seconds are over: it is told near the end,
  // and then the time is used up.
  static std::string step_that_does_not_save() {
    return "trap '' USR1\necho $$ > \"$FOLDER/step_pid\"\n" + after(14) +
           "until grep -q USR1 \"$FOLDER/asked\"; do sleep 0.02; done\n" + after(18) +
           "while :; do sleep 0.02; done";
  }
  bool put_back() { return read("asked").find("scontrol requeue 7") != std::string::npos; }

  TempDirectory folder_;
};

TEST_F(SlurmTimeTest, TheLongestTimeCountsOverAllStarts) {
  // Slurm's own limit is near, and the job's is not.
  write("left", "1:10");
  EXPECT_EQ(start(7200, "exit 138"), 138);
  EXPECT_TRUE(put_back());
  EXPECT_FALSE(read("ran").empty());
  write("ran", "7000");
  EXPECT_EQ(start(7200, "exit 138"), 138);
  EXPECT_TRUE(put_back());
  // Less than three minutes are left of all.
  write("ran", "7021");
  EXPECT_EQ(start(7200, "exit 138"), 124);
  EXPECT_FALSE(put_back());
  EXPECT_EQ(read("time_over"), "7200");
  EXPECT_EQ(read("exit_code"), "124");
  EXPECT_THAT(read("asked"), HasSubstr("srun"));
  // It was used up before this start, as after the node had failed.
  write("ran", "7111");
  EXPECT_EQ(start(7200, "exit 138"), 124);
  EXPECT_THAT(read("asked"), Not(HasSubstr("srun")));
  // What ends well ends well, whatever time it took.
  write("ran", "7000");
  EXPECT_EQ(start(7200, "exit 0"), 0);
  // A mistake is told as one.
  write("failed", "");
  write("ran", "10");
  EXPECT_EQ(start(7200, "echo 3 worker-0 > \"$FOLDER/failed\"; exit 3"), 3);
  EXPECT_EQ(read("time_over"), "");
  // Without a limit the job goes back into the queue for ever.
  write("ran", "1000000");
  EXPECT_EQ(start(0, "exit 138"), 138);
  EXPECT_TRUE(put_back());
}

TEST_F(SlurmTimeTest, TasksAreToldBeforeItIsUsedUp) {
  write("ran", "37");
  // A quarter of a limit so short is left for saving.
  EXPECT_EQ(start(52,
                  "trap 'echo saved > \"$FOLDER/saved\"; exit 138' USR1\n"
                  "echo $$ > \"$FOLDER/step_pid\"\n" +
                      after(5) + "while :; do sleep 0.02; done"),
            124);
  EXPECT_EQ(read("saved"), "saved");
  EXPECT_THAT(read("asked"), HasSubstr("scancel --signal=USR1 7"));
  EXPECT_EQ(read("ran"), "42");
}

TEST_F(SlurmTimeTest, WhoDoesNotSaveIsKilledAndTheJobIsNotCancelled) {
  write("ran", "2");
  EXPECT_EQ(start(20, step_that_does_not_save()), 124);
  EXPECT_EQ(read("time_over"), "20");
  EXPECT_THAT(read("asked"), AllOf(HasSubstr("scancel --signal=KILL 7.0"),
                                   Not(HasSubstr("KILL 7.batch")), Not(HasSubstr("KILL 7\n"))));
}

// As where the quota of a home directory is used up.
TEST_F(SlurmTimeTest, TheTimeGoesOnWhereItCannotBeNoted) {
  std::filesystem::create_directory(folder_ / "ran.new");
  write("ran", "2");
  EXPECT_EQ(start(20, step_that_does_not_save()), 124);
  EXPECT_THAT(read("asked"), HasSubstr("scancel --signal=KILL 7.0"));
}

TEST(SlurmTest, AJobIsKnownByItsComment) {
  const std::string lines = "16 (null)\n 17 s1\n18 s12\nslurm_load_jobs error\nx s9\n";
  EXPECT_EQ(job_of_comment(lines, "s1"), "17");
  EXPECT_EQ(job_of_comment(lines, "s12"), "18");
  for (const char* none : {"s", "s9", "17", ""})
    EXPECT_EQ(job_of_comment(lines, none), std::nullopt) << none;
  // A job that somebody put back has not ended any more.
  EXPECT_THAT(slurm_script(job_of(1), {.muster = "m", .folder = "/f"}),
              HasSubstr(std::string("\"$folder/") + kEndFile + "\"\n"));
  EXPECT_THAT(slurm_script(job_of(1), {.muster = "m", .folder = "/f", .comment = "s1"}),
              HasSubstr("#SBATCH --comment=s1\n"));
  // What a user has to say stands in front of it, and hides nothing.
  const std::string own = slurm_script(
      job_of(1), {.muster = "m", .folder = "/f", .flags = {"--comment=my=lab"}, .comment = "s1"});
  EXPECT_THAT(own, AllOf(HasSubstr("#SBATCH --comment=my=lab:s1\n"),
                         Not(HasSubstr("--comment=my=lab\n")), Not(HasSubstr("--comment=s1"))));
  EXPECT_EQ(job_of_comment("16 my=lab:s12\n17 my=lab:s1\n18 xs1\n", "s1"), "17");
  EXPECT_THAT(script(job_of(1), {"--comment=mine"}), HasSubstr("#SBATCH --comment=mine\n"));
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
  EXPECT_EQ(state("COMPLETING"), JobState::kEnding);
  EXPECT_EQ(state("RUNNING"), JobState::kRunning);
  EXPECT_EQ(state("RUNNING", true), JobState::kEnding);
  EXPECT_EQ(state("COMPLETED"), JobState::kSucceeded);
  EXPECT_EQ(state("CANCELLED"), JobState::kCancelled);
  EXPECT_EQ(state("OUT_OF_MEMORY"), JobState::kFailed);
  EXPECT_EQ(state("FAILED", true), JobState::kCancelled);
  EXPECT_EQ(state("NEWER_THAN_US"), JobState::kUnknown);
  const JobStatus waited =
      slurm_status("JobState=CANCELLED Reason=None Restarts=0 RunTime=00:00:00 ExitCode=0:0", true);
  EXPECT_EQ(waited.exit_code, std::nullopt);
  EXPECT_EQ(waited.detail, "it was cancelled before it began");
  const JobStatus failed =
      slurm_status("JobState=FAILED Reason=NonZeroExitCode Restarts=2 ExitCode=0:9", false);
  EXPECT_EQ(failed.restarts, 2);
  EXPECT_EQ(failed.exit_code, 137);
  EXPECT_THAT(failed.detail, HasSubstr("NonZeroExitCode"));
  EXPECT_THAT(slurm_status("JobState=PENDING Reason=Priority", false).detail, "waits: Priority");
  // What Slurm may put back into its queue by itself has not ended for ever.
  for (const char* word : {"PREEMPTED", "NODE_FAIL"})
    EXPECT_TRUE(slurm_status("JobState=" + std::string(word), false).was_taken_away) << word;
  EXPECT_FALSE(slurm_status("JobState=FAILED", false).may_return);
  EXPECT_FALSE(slurm_status("JobState=FAILED", false).was_taken_away);
}

// Numbers begin again when a controller is set up again.
TEST(SlurmTest, AJobOfTheSameNumberMayBeAnother) {
  const std::string said = "JobId=7 JobState=RUNNING Command=/s/a b/job.sbatch WorkDir=/w";
  EXPECT_TRUE(is_job_of_script(said, "/s/a b/job.sbatch"));
  EXPECT_TRUE(is_job_of_script("JobId=7 Command=/s/job.sbatch", "/s/job.sbatch"));
  EXPECT_FALSE(is_job_of_script(said, "/s/a/job.sbatch"));
  EXPECT_FALSE(is_job_of_script(said, "/s/a b/job.sb"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
