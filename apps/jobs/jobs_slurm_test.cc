// Jobs and searches on a real Slurm of one machine, with programs that are scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "apps/jobs/job_commands.h"
#include "tests/support/slurm_cluster.h"

namespace muster::app {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SlurmJobsTest : public JobCommands {
 protected:
  void SetUp() override {
    write("config.yaml", kTutorialConfig);
    // Where there is no Slurm to be had; CI installs one.
    if (const std::string why = SlurmCluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    slurm_ = std::make_unique<SlurmCluster>(SlurmCluster::Options{.kill_wait_s = 5});
    for (const auto& [name, value] : slurm_->environment())
      environment_ += name + "=" + value + " ";
  }
  ShellOutput tool(const std::string& line) const { return run_shell(environment_ + line); }

  // Waits until the job waits in the queue for its next start, and lets it begin soon: by default
  // Slurm holds such jobs for two minutes. In the second of its end a node of newer versions
  // refuses the job.
  bool is_requeued(const std::string& job, int times) const {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (status(job).value("restarts", 0) != times ||
           status(job).value("state", "") != "queued") {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(50ms);  // Slurm tells of its queue only when it is asked
    }
    const std::string id = status(job)["id"];
    while (tool("scontrol update job=" + id + " StartTime=now+2").code != 0) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(50ms);  // refused while the job before is cleared away
    }
    return true;
  }

  std::unique_ptr<SlurmCluster> slurm_;
};

TEST_F(SlurmJobsTest, OneJobOfAllTasksWithTheirPlaces) {
  // Slurm has a meaning for each of these letters.
  state_ = "it's a %j #b";
  program(
      "echo \"$TF_CONFIG\"; echo \"args: $*\"; stat -c %a \"$MUSTER_JOB_TOKEN_FILE\"\n"
      "echo \"left: ${MUSTER_JOB_TOKEN-}${MUSTER_CLUSTER-}.\"");
  environment_ += "MUSTER_JOB_TOKEN=of_another_job_altogether MUSTER_CLUSTER=local ";
  const ShellOutput ran = muster(
      "submit --config=config.yaml --to=slurm --no-accelerators --job-dir=run --name=leaves --wait "
      "./train -- --epochs=5");
  EXPECT_EQ(ran.code, 0) << ran.text << slurm_->logs()
                         << read(state_ + "/muster/jobs/leaves/batch.log");
  EXPECT_THAT(ran.text,
              AllOf(HasSubstr("[worker-0] args: --from=config --epochs=5 --job-dir run\n"),
                    HasSubstr("[worker-0] 600\n"), HasSubstr("[worker-0] left: .\n"),
                    HasSubstr("leaves succeeded")));
  const std::string log = read(state_ + "/muster/jobs/leaves/worker-0.log");
  const auto config = nlohmann::json::parse(log.substr(0, log.find('\n')));
  EXPECT_THAT(config["cluster"]["chief"][0].get<std::string>(), StartsWith("127.0.0.1:"));
  EXPECT_NE(config["cluster"]["chief"][0], config["cluster"]["worker"][0]);
  const auto said = status("leaves");
  EXPECT_EQ(said["state"], "succeeded");
  EXPECT_EQ(said["tasks"][0]["place"], "node01");

  // A failure that will come again is not tried again, and is the job's.
  program("[[ $TF_CONFIG == *'\"type\":\"worker\"'* ]] && exit 3; sleep 20");
  EXPECT_EQ(muster("submit --config=config.yaml --to=slurm --no-accelerators --name=bad --wait "
                   "./train")
                .code,
            3);
  EXPECT_EQ(status("bad")["detail"], "worker-0: exit code 3");
  EXPECT_THAT(muster("submit --config=config.yaml --to=slurm ./train").text,
              AllOf(HasSubstr("sbatch refuses the job"), HasSubstr("--no-accelerators")));
}

// The longest time of a job is none of a start: it does not go back into the queue.
TEST_F(SlurmJobsTest, ItsLongestTimeEndsAJob) {
  program("trap 'echo saved > saved; exit 138' USR1\nwhile :; do sleep 0.05; done");
  // Within this time the program has begun to listen, on a busy machine too.
  const ShellOutput ran =
      muster("submit --to=slurm --max-running-time=12 --name=limited --wait ./train");
  EXPECT_EQ(ran.code, 124) << ran.text << slurm_->logs();
  EXPECT_THAT(ran.text, AllOf(HasSubstr("[slurm] the job has run for its 12 s"),
                              HasSubstr("limited failed: it ran for longer than 12 s")));
  EXPECT_EQ(read("saved"), "saved\n") << ran.text << slurm_->logs();
  EXPECT_EQ(status("limited")["restarts"], 0);
  // By its comment a job is found whose number nobody wrote down.
  program("sleep 60");
  ASSERT_EQ(muster("submit --to=slurm --name=lost ./train").code, 0);
  const std::string path = "state/muster/jobs/lost/record.json";
  auto record = nlohmann::json::parse(read(path));
  const std::string id = record["id"];
  record["id"] = "";
  write(path, record.dump());
  EXPECT_EQ(status("lost")["id"], id);
  EXPECT_EQ(nlohmann::json::parse(read(path))["id"], id);
  EXPECT_EQ(muster("jobs cancel lost").code, 0);
}

// Nor is it cancelled when its tasks have to be killed.
TEST_F(SlurmJobsTest, WhatDoesNotSaveInItsLongestTimeIsKilled) {
  program("trap '' USR1\nwhile :; do sleep 0.05; done");
  const ShellOutput ran =
      muster("submit --to=slurm --max-running-time=2 --name=deaf --wait ./train");
  EXPECT_EQ(ran.code, 124) << ran.text << slurm_->logs();
  EXPECT_THAT(ran.text, AllOf(HasSubstr("deaf failed: it ran for longer than 2 s"),
                              Not(HasSubstr("No such file"))));
}

// Slurm has taken the trial of a search when that is killed, and nobody has noted its number.
TEST_F(SlurmJobsTest, ATrialWhoseSubmissionWasCutOffRunsOnce) {
  write("search.yaml",
        "scaleTier: BASIC\nhyperparameters:\n  goal: MAXIMIZE\n  maxTrials: 1\n"
        "  hyperparameterMetricTag: score\n  params:\n"
        "  - {parameterName: lr, type: DOUBLE, minValue: 1, maxValue: 2}\n");
  program(
      "mkdir running || touch twice; echo x >> starts\n"
      "trap 'rmdir running; exit 143' TERM\n"
      // At most 60 s, should the test not come to its end.
      "for i in {1..1200}; do [ -e go ] && break; sleep 0.05; done\n"
      "echo '{\"global_step\": \"1\", \"score\": \"0.5\"}' > $CLOUD_ML_HP_METRIC_FILE; rmdir "
      "running");
  const std::string command =
      "submit --config=search.yaml --to=slurm --job-dir=tune --name=tune ./train";
  std::filesystem::create_directory(directory_ / "tools");
  write("tools/sbatch", "#!/bin/bash\nPATH=${PATH#*:} sbatch \"$@\" > /dev/null; kill -9 $PPID\n");
  std::filesystem::permissions(directory_ / "tools/sbatch", std::filesystem::perms::owner_all);
  const std::string plain = environment_;
  environment_ += "PATH=" + directory_ / "tools" + ":$PATH ";
  EXPECT_EQ(muster(command).code, 137);
  environment_ = plain;
  EXPECT_TRUE(appears("starts")) << slurm_->logs();
  EXPECT_THAT(muster("submit --job-dir=tune true").text,
              HasSubstr("which has ended, and 1 of its trials may run on"));
  std::thread second([&] {
    const ShellOutput ran = muster(command);
    EXPECT_EQ(ran.code, 0) << ran.text << slurm_->logs();
    EXPECT_THAT(ran.text, HasSubstr("ending trials that continued to run after tune: 1"));
  });
  const auto end = std::chrono::steady_clock::now() + 60s;
  // A trial tells of its start by a line in a file, which is looked at now and then.
  while (read("starts") != "x\nx\n" && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(20ms);
  write("go", "");
  second.join();
  EXPECT_EQ(read("starts"), "x\nx\n");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "twice"));
}

TEST_F(SlurmJobsTest, RestartsCancelsAndGoesBackIntoTheQueue) {
  // Saves when it is told to stop, and says that it should go on.
  program(
      "starts=$(($(cat starts 2>/dev/null || echo 0) + 1)); echo $starts > starts\n"
      "echo \"start $starts, requeued ${SLURM_RESTART_COUNT:-0}\"\n"
      "[ $starts = 1 ] && exit 138\n"
      "trap 'touch saved; exit 138' USR1\ntrap 'touch stopped; exit 143' TERM\n"
      "touch ready$starts; while :; do sleep 0.05; done");
  // The whole time is less than three minutes, so that any end of a task counts as near the limit.
  ASSERT_EQ(muster("submit --to=slurm --slurm=--time=2 --name=loop ./train").code, 0);
  // 138 of the first start came in the last three minutes, so the job went back into the queue.
  const std::string id = status("loop")["id"];
  ASSERT_TRUE(is_requeued("loop", 1)) << read("state/muster/jobs/loop/batch.log");
  EXPECT_TRUE(appears("ready2"));
  // What Slurm sends 90 s before the end.
  tool("scancel --signal=USR1 " + id);
  EXPECT_TRUE(appears("saved"));
  ASSERT_TRUE(is_requeued("loop", 2)) << read("state/muster/jobs/loop/batch.log");
  EXPECT_TRUE(appears("ready3"));
  // What preemption or an administrator does.
  tool("scontrol requeue " + id);
  ASSERT_TRUE(is_requeued("loop", 3));
  EXPECT_TRUE(std::filesystem::remove(directory_ / "stopped"));
  EXPECT_TRUE(appears("ready4"));
  EXPECT_EQ(muster("jobs cancel loop").code, 0);
  EXPECT_TRUE(becomes("loop", "cancelled"));
  EXPECT_EQ(status("loop")["detail"], "its tasks ended as they were asked to");
  EXPECT_TRUE(std::filesystem::exists(directory_ / "stopped"));
  EXPECT_THAT(muster("jobs logs --task=chief-0 loop").text,
              AllOf(HasSubstr("start 2, requeued 1"), HasSubstr("start 3, requeued 2"),
                    HasSubstr("start 4, requeued 3")));
}

}  // namespace
}  // namespace muster::app
