// `muster submit` and `muster jobs` as a user meets them, with programs that are scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/jobs/job_commands.h"

namespace muster::app {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class JobsCommandTest : public JobCommands {
 protected:
  JobsCommandTest() { write("config.yaml", kTutorialConfig); }
};

TEST_F(JobsCommandTest, AJobRunsAsItsConfigurationSays) {
  program("echo \"$TF_CONFIG\"; echo \"args: $*\"; echo \"$CLOUD_ML_JOB_ID\"");
  const ShellOutput ran = muster(
      "submit --config=config.yaml --job-dir=run --name=leaves --wait ./train -- --epochs=5");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text,
              AllOf(HasSubstr("chief: 1 NVIDIA_TESLA_T4 each is not asked for here"),
                    HasSubstr("[chief-0] args: --from=config --epochs=5 --job-dir run\n"),
                    HasSubstr("[worker-0] args: --from=config --epochs=5 --job-dir run\n"),
                    HasSubstr("leaves succeeded")));
  const std::string log = read("state/muster/jobs/leaves/worker-0.log");
  const auto config = nlohmann::json::parse(log.substr(0, log.find('\n')));
  EXPECT_EQ(config["cluster"]["chief"].size(), 1u);
  EXPECT_EQ(config["cluster"]["worker"].size(), 1u);
  EXPECT_EQ(config["task"]["type"], "worker");
  EXPECT_EQ(config["task"]["trial"], "");
  EXPECT_EQ(config["environment"], "cloud");
  const auto input = nlohmann::json::parse(config["job"].get<std::string>());
  EXPECT_EQ(input["worker_count"], "1");
  EXPECT_EQ(input["master_type"], "n1-standard-8");

  const auto said = status("leaves");
  EXPECT_EQ(said["state"], "succeeded");
  EXPECT_EQ(said["tasks"].size(), 2u);
  EXPECT_EQ(said["tasks"][1]["exit_code"], 0);
  EXPECT_THAT(muster("jobs list").text, AllOf(HasSubstr("leaves"), HasSubstr("succeeded")));
  EXPECT_THAT(muster("jobs logs --task=chief-0 --tail=1 leaves").text, "leaves\n");
  EXPECT_THAT(muster("jobs logs --task=cheif-0 leaves").text, HasSubstr("did you mean chief-0?"));
  // Another number is no slip of a finger.
  EXPECT_THAT(muster("jobs logs --task=chief-1 leaves").text,
              AllOf(HasSubstr("it has 'chief-0', 'worker-0'"), Not(HasSubstr("did you mean"))));
  EXPECT_EQ(muster("jobs remove leaves").code, 0);
  EXPECT_THAT(muster("jobs list").text, HasSubstr("no jobs"));
}

TEST_F(JobsCommandTest, MasterAndServersAndAnEvaluator) {
  program("echo \"$TF_CONFIG\"");
  write("config.yaml",
        "scaleTier: CUSTOM\nmasterType: a\nworkerType: a\nworkerCount: 2\nparameterServerType: a\n"
        "parameterServerCount: 1\nevaluatorType: a\nevaluatorCount: 1\n");
  ASSERT_EQ(muster("submit --config=config.yaml --name=old --wait ./train").code, 0);
  const auto config = nlohmann::json::parse(read("state/muster/jobs/old/evaluator-0.log"));
  EXPECT_EQ(config["cluster"]["master"].size(), 1u);
  EXPECT_EQ(config["cluster"]["worker"].size(), 2u);
  EXPECT_EQ(config["cluster"]["ps"].size(), 1u);
  EXPECT_FALSE(config["cluster"].contains("evaluator"));
  EXPECT_EQ(config["task"]["type"], "evaluator");
}

TEST_F(JobsCommandTest, ItGoesOnByItselfAndCanBeCancelled) {
  program(
      "trap 'while [ ! -e go ]; do sleep 0.02; done; touch saved; exit 143' TERM\n"
      "touch ready; while :; do sleep 0.05; done");
  const ShellOutput submitted = muster("submit --job-dir=run --restart=0 ./train");
  EXPECT_EQ(submitted.code, 0);
  EXPECT_THAT(submitted.text, AllOf(HasSubstr("train-1 is submitted to local"),
                                    HasSubstr("muster jobs logs --follow train-1")));
  ASSERT_TRUE(appears("ready"));
  EXPECT_EQ(status("train-1")["state"], "running");
  // The same folder by another name.
  const ShellOutput second = muster("submit --job-dir=$PWD/./run/ ./train");
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.text, AllOf(HasSubstr("is that of the job train-1, which is running on local"),
                                 HasSubstr("muster jobs cancel train-1")));
  EXPECT_THAT(muster("jobs remove train-1").text, HasSubstr("cancel it first"));
  EXPECT_THAT(muster("submit --name=train-1 ./train").text, HasSubstr("there is a job 'train-1'"));
  EXPECT_EQ(muster("jobs cancel train-1").code, 0);
  // While it saves, nothing else may have its directory.
  EXPECT_EQ(status("train-1")["state"], "ending");
  EXPECT_EQ(status("train-1")["tasks"][0]["state"], "ending");
  EXPECT_THAT(muster("jobs list").text, HasSubstr("ending"));
  EXPECT_THAT(
      muster("submit --job-dir=run ./train").text,
      AllOf(HasSubstr("which is ending on local"), HasSubstr("wait until its tasks have saved")));
  EXPECT_THAT(muster("jobs remove train-1").text, HasSubstr("error: train-1 is ending"));
  write("go", "");
  EXPECT_TRUE(becomes("train-1", "cancelled"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "saved"));
  const auto ended = status("train-1");
  EXPECT_EQ(ended["detail"], "its tasks ended as they were asked to");
  EXPECT_EQ(ended["tasks"][0]["state"], "cancelled");
  EXPECT_EQ(ended["tasks"][0]["exit_code"], 143);
  EXPECT_THAT(muster("jobs cancel train-1").text, HasSubstr("cancelled already"));
}

// What is wrong with one of several keeps none of the others waiting.
TEST_F(JobsCommandTest, SeveralJobsAreNamedAtOnce) {
  program("[ $1 = runs ] && sleep 60; exit 0");
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(muster("submit --wait --name=" + std::string(name) + " ./train -- ends").code, 0);
  }
  ASSERT_EQ(muster("submit --name=d ./train -- runs").code, 0);
  EXPECT_THAT(muster("jobs list c a").text,
              AllOf(HasSubstr("\nc "), HasSubstr("\na "), Not(HasSubstr("\nb "))));
  const ShellOutput listed = muster("jobs list nothing a");
  EXPECT_EQ(listed.code, 2);
  EXPECT_THAT(listed.text, AllOf(HasSubstr("no job 'nothing'"), HasSubstr("\na ")));
  EXPECT_EQ(status("a b").size(), 2u);
  EXPECT_EQ(status("b c")[1]["name"], "c");
  EXPECT_EQ(status("a a")["name"], "a");
  const ShellOutput shown = muster("jobs status a nothing d");
  EXPECT_EQ(shown.code, 2);
  EXPECT_THAT(shown.text, AllOf(HasSubstr("job            a\n"), HasSubstr("no job 'nothing'"),
                                HasSubstr("\n\njob            d\n")));
  EXPECT_THAT(muster("jobs logs a b").text,
              HasSubstr("hint: give the name of a single job: muster jobs logs b\n"));
  const ShellOutput removed = muster("jobs remove a d b");
  EXPECT_EQ(removed.code, 2);
  EXPECT_THAT(removed.text,
              AllOf(HasSubstr("the record of a is removed\n"), HasSubstr("error: d is running\n"),
                    HasSubstr("the record of b is removed\n")));
  EXPECT_THAT(muster("jobs cancel c d").text,
              AllOf(HasSubstr("c has ended already\n"), HasSubstr("d was asked to end")));
  EXPECT_TRUE(becomes("d", "cancelled"));
  EXPECT_EQ(muster("jobs remove c d").code, 0);
  EXPECT_THAT(muster("jobs list").text, HasSubstr("no jobs"));
}

// The examples of --help run one after the other without an error.
TEST_F(JobsCommandTest, TheExamplesOfTheHelpWork) {
  program("exit 0");
  std::filesystem::rename(directory_ / "train", directory_ / "mnist");
  environment_ = "PATH=.:$PATH ";
  for (const char* command : {"submit", "job", "job init", "jobs", "jobs list", "jobs status",
                              "jobs logs", "jobs cancel"}) {
    const std::string help = muster(std::string(command) + " --help").text;
    const std::string indent = "\n  muster ";
    size_t at = help.find("Example");
    ASSERT_NE(at, std::string::npos) << command;
    for (at = help.find(indent, at); at != std::string::npos; at = help.find(indent, at + 1)) {
      const size_t begin = at + indent.size();
      const std::string example = help.substr(begin, help.find('\n', begin) - begin);
      // Images are of no use here; the same file of a configuration is in two examples.
      if (example.starts_with("data ")) continue;
      std::filesystem::remove(directory_ / (example.starts_with("job ") ? "config.yaml" : "none"));
      const ShellOutput ran = muster(example);
      EXPECT_EQ(ran.code, 0) << example << ": " << ran.text;
    }
  }
  EXPECT_TRUE(becomes("mnist-1", "succeeded") && becomes("mnist-2", "succeeded"));
  EXPECT_EQ(muster("jobs remove mnist-1 mnist-2").code, 0);
}

// What the hint says can be copied.
TEST_F(JobsCommandTest, TheHintForAJobThatRunsForgetsIt) {
  program("sleep 60");
  ASSERT_EQ(muster("submit --name=fit ./train").code, 0);
  const std::string said = muster("jobs remove fit").text;
  const std::string before = "hint: cancel it first: ";
  ASSERT_THAT(said, HasSubstr(before));
  write("hint", said.substr(said.find(before) + before.size()));
  const ShellOutput ran =
      run_shell("cd " + directory_.path() + "; muster() { " + muster_line("\"$@\"") +
                "; }; export XDG_STATE_HOME=\"$PWD/state\"; . ./hint");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("the record of fit is removed"));
}

TEST_F(JobsCommandTest, CtrlCEndsThePrintingAndNotTheJob) {
  program("echo hello; sleep 60");
  ASSERT_EQ(muster("submit --name=fit ./train").code, 0);
  // Jobs of this shell can be interrupted. At most 60 s, should nothing be printed.
  write("interrupt",
        "set -m\nXDG_STATE_HOME=$PWD/state " + muster_line("jobs logs -f fit") +
            " > followed 2>&1 &\n"
            "for i in {1..1200}; do grep -q hello followed && break; sleep 0.05; done\n"
            "kill -INT $!; wait $!\n");
  EXPECT_EQ(run_shell("cd " + directory_.path() + "; bash interrupt").code, 130);
  EXPECT_EQ(read("followed"),
            "[chief-0] hello\nfit continues to run; to end it: muster jobs cancel fit\n");
  EXPECT_EQ(status("fit")["state"], "running");
  EXPECT_EQ(muster("jobs cancel fit").code, 0);
  EXPECT_TRUE(becomes("fit", "cancelled"));
}

TEST_F(JobsCommandTest, WhatAsksForARestartGetsIt) {
  program("[ -e again ] && exit 0; touch again; exit 138");
  ASSERT_EQ(muster("submit --name=again --wait ./train").code, 0);
  EXPECT_EQ(status("again")["restarts"], 1);
  EXPECT_EQ(muster("submit --name=never --restart=0 --wait ./train").code, 0);
}

TEST_F(JobsCommandTest, ALimitOfTime) {
  program("trap 'exit 143' TERM; while :; do sleep 0.05; done");
  const ShellOutput ran = muster("submit --name=long --max-running-time=1 --wait ./train");
  EXPECT_EQ(ran.code, 143);
  EXPECT_THAT(ran.text, HasSubstr("long failed: it ran for longer than 1 s"));
}

TEST_F(JobsCommandTest, AKilledKeeperIsNoticed) {
  program("echo $$ > pid; touch ready; while :; do sleep 0.05; done");
  ASSERT_EQ(muster("submit --name=lost ./train").code, 0);
  ASSERT_TRUE(appears("ready"));
  kill(std::stoi(status("lost")["id"].get<std::string>()), SIGKILL);
  EXPECT_TRUE(becomes("lost", "failed"));
  EXPECT_THAT(muster("jobs status lost").text, HasSubstr("its supervising process has ended"));
  // Its tasks go with it; nobody may be there to take their exit status.
  const std::string pid = read("pid");
  const auto is_gone = [&] {
    const ShellOutput stat = run_shell("ps -o stat= -p " + pid);
    return stat.code != 0 || stat.text.starts_with("Z");
  };
  const auto end = std::chrono::steady_clock::now() + 60s;
  // This process cannot wait for one that is not a child of it: it looks now and then.
  while (!is_gone() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(is_gone());
}

TEST_F(JobsCommandTest, ErrorsNameTheLineAndTheFix) {
  program("true");
  write("good.yaml", "scaleTier: BASIC\n");
  write("bad.yaml", "trainingInput:\n  scaleTier: CUSTOM\n  masterType: a\n  workerCount: 2\n");
  const ShellOutput ran = muster("submit --config=bad.yaml true");
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.text,
            "error: bad.yaml:4:3: trainingInput.workerCount is 2, and there is no workerType\n"
            "    4 |   workerCount: 2\n"
            "      |   ^\n"
            "hint: add workerType, the machine of each, such as n1-standard-8\n");
  for (const auto& [arguments, said] : std::map<std::string, std::string>{
           {"submit", "there is no program"},
           {"submit --config=none.yaml true", "none.yaml"},
           {"submit --to=slrum true", "did you mean slurm?"},
           {"submit --to=k8s true", "did you mean kubernetes?"},
           {"submit --max-trials=3 true",
            "--max-trials applies only to a hyper-parameter search, and no --config"},
           {"submit --config=good.yaml --seed=3 true",
            "--seed applies only to a hyper-parameter search, and good.yaml has neither "
            "hyperparameters"},
           {"submit --parallel-trials=2 true",
            "--parallel-trials applies only to a hyper-parameter search"},
           {"submit --job-dir=s3:b/x true", "hint: write s3://b/x"},
           {"submit --config=gs:/b/job.yaml true", "hint: write gs://b/job.yaml"},
           {"submit --job-dir=good.yaml/run true", "good.yaml is a file"},
           {"submit --to=slurm --dry-run --job-dir=good.yaml true", "good.yaml is a file"},
           {"submit --name=A_b true", "cannot be the name of a job"},
           {"submit no_such_program_anywhere", "was found neither in PATH"},
           {"submit trian", "did you mean ./train?"},
           {"submit --slurm=--partition=x true", "--slurm applies only to --to=slurm"},
           {"submit --to=slurm --slurm=gpu --dry-run true", "is not a flag of sbatch"},
           {"jobs status nothing", "there is no job 'nothing'"},
           {"jobs", "needs a command"},
           {"jobs kepe", "choose one of: list, status, logs, cancel, remove\n"},
           {"submit --to=kubernetes --volume=models:relative --dry-run true",
            "--volume is 'models:relative'"}}) {
    const ShellOutput failed = muster(arguments);
    EXPECT_EQ(failed.code, 2) << arguments << ": " << failed.text;
    EXPECT_THAT(failed.text, HasSubstr(said)) << arguments;
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "state"));
}

TEST_F(JobsCommandTest, ADryRunStartsNothing) {
  program("touch ran");
  const ShellOutput local = muster("submit --config=config.yaml --dry-run ./train");
  EXPECT_THAT(local.text, AllOf(HasSubstr("# chief-0\n"), HasSubstr("TF_CONFIG=")));
  const ShellOutput slurm = muster(
      "submit --config=config.yaml --to=slurm --slurm='--partition=gpu --time=1:00:00' --dry-run "
      "./train");
  EXPECT_THAT(slurm.text, AllOf(HasSubstr("#SBATCH --ntasks=2\n"), HasSubstr("#SBATCH --requeue\n"),
                                HasSubstr("#SBATCH --signal=USR1@90\n"),
                                HasSubstr("#SBATCH --gpus-per-task=1\n"),
                                HasSubstr("#SBATCH --partition=gpu\n"), Not(HasSubstr("TOKEN"))));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "state"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "ran"));
}

TEST_F(JobsCommandTest, AConfigurationFromFlagsIsReadAgain) {
  EXPECT_EQ(muster("job init --workers=3 --ps=2 --evaluator --gpus=1 --image=i --out=made.yaml "
                   "-- --epochs=5")
                .code,
            0);
  EXPECT_THAT(read("made.yaml"), StartsWith("trainingInput:\n  scaleTier: CUSTOM\n"));
  EXPECT_EQ(muster("job init --out=made.yaml").code, 2);
  const ShellOutput dry = muster("submit --config=made.yaml --dry-run true -- --more");
  EXPECT_EQ(dry.code, 0) << dry.text;
  EXPECT_THAT(dry.text, AllOf(HasSubstr("# worker-2\n"), HasSubstr("# ps-1\n"),
                              HasSubstr("# evaluator-0\n"), HasSubstr("true --epochs=5 --more\n")));
}

// A launcher that was chosen by hand is not chosen for the tasks of a job.
TEST_F(JobsCommandTest, TasksBelieveTheirOwnCluster) {
  program("echo \"chosen: ${MUSTER_CLUSTER-none}\"; echo \"rank: ${RANK-none}${WORLD_SIZE-}\"");
  environment_ = "MUSTER_CLUSTER=local RANK=2 WORLD_SIZE=3 MASTER_ADDR=host0 ";
  const ShellOutput ran = muster("submit --workers=2 --wait ./train");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr("[worker-1] chosen: none\n"), Not(HasSubstr("local\n")),
                              HasSubstr("[worker-1] rank: none\n")));
}

TEST_F(JobsCommandTest, TheSameCommandGoesOnUnderItsName) {
  program("echo \"start\"; [ -e again ] && exit 0; touch again; exit 3");
  const std::string command = "submit --name=fit --job-dir=run --wait ./train";
  EXPECT_EQ(muster(command).code, 3);
  EXPECT_THAT(muster("submit --name=fit --job-dir=run ./train -- --other").text,
              AllOf(HasSubstr("there is a job 'fit' already"),
                    HasSubstr("; this one has --other, and it has not\n")));
  EXPECT_THAT(muster("submit --name=fit --job-dir=other --dry-run ./train").text,
              HasSubstr("/run, and that of this one "));
  const ShellOutput again = muster(command);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_THAT(again.text, HasSubstr("an earlier job fit with the same command had ended"));
  EXPECT_EQ(status("fit")["state"], "succeeded");
  // So is a job directory.
  std::filesystem::create_directory(directory_ / "run");
  std::filesystem::create_directory_symlink("run", directory_ / "alias");
  for (const char* same : {"$PWD/run", "./run/", "alias", "run/../run"}) {
    const ShellOutput ran =
        muster("submit --name=fit --wait ./train --job-dir=" + std::string(same));
    EXPECT_EQ(ran.code, 0) << same << ": " << ran.text;
  }
  // A program is the same however its path is written, and another one is another.
  std::filesystem::create_directories(directory_ / "deep/far");
  std::filesystem::create_directory_symlink("deep/far", directory_ / "link");
  std::filesystem::copy_file(directory_ / "train", directory_ / "deep/train");
  const std::string start = "submit --name=fit --job-dir=run --wait ";
  for (const char* same : {"$PWD/train", "$PWD/.//train", "deep/../train"})
    EXPECT_EQ(muster(start + same).code, 0) << same;
  EXPECT_THAT(muster(start + "link/../train").text, HasSubstr("there is a job 'fit' already"));
  environment_ = "PATH=.:$PATH ";
  EXPECT_EQ(muster(start + "train").code, 0);
}

// Of two processes one wins, and the other says who has it.
TEST_F(JobsCommandTest, OfTwoSubmissionsAtATimeOneWins) {
  program("sleep 60");
  const auto both = [&](const std::string& first, const std::string& second) {
    const auto line = [&](const std::string& flags, const char* out) {
      return "{ XDG_STATE_HOME=$PWD/state " + muster_line("submit " + flags + " ./train") + " > " +
             out + " 2>&1; echo $? >> " + out + "; } & ";
    };
    run_shell("cd " + directory_.path() + "; " + line(first, "one") + line(second, "two") + "wait");
    return std::vector<std::string>{read("one"), read("two")};
  };
  for (int round = 0; round < 4; ++round) {
    const std::string name = "named" + std::to_string(round);
    const std::string dir = "--job-dir=run" + std::to_string(round);
    int won = 0;
    for (const std::string& text : both(dir, dir)) {
      if (text.ends_with("\n0\n")) {
        ++won;
      } else {
        EXPECT_THAT(text, AllOf(HasSubstr("error: the job directory run"),
                                HasSubstr("is that of the job train-"), HasSubstr("\n2\n")));
      }
    }
    EXPECT_EQ(won, 1) << read("one") << read("two");
    won = 0;
    for (const std::string& text : both("--name=" + name, "--name=" + name)) {
      if (text.ends_with("\n0\n")) {
        ++won;
      } else {
        EXPECT_THAT(text,
                    AllOf(HasSubstr("there is a job '" + name + "' already"), HasSubstr("\n2\n")));
      }
    }
    EXPECT_EQ(won, 1) << read("one") << read("two");
    // Others do not keep each other away.
    for (const std::string& text : both("", "")) EXPECT_THAT(text, HasSubstr("\n0\n"));
  }
  // A dry run says what would be in the way, and prints the job anyway.
  const ShellOutput dry = muster("submit --dry-run --name=named0 --job-dir=run0 ./train");
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.text, AllOf(HasSubstr("cannot be submitted: there is a job 'named0' already"),
                              HasSubstr("cannot be submitted: the job directory run0 is that of"),
                              HasSubstr("TF_CONFIG=")));
  EXPECT_THAT(muster("submit --dry-run --name=free --job-dir=free ./train").text,
              Not(HasSubstr("cannot be")));
  const auto jobs = nlohmann::json::parse(muster("jobs list --json").text);
  for (const auto& job : jobs) muster("jobs cancel " + job["name"].get<std::string>());
  for (const auto& job : jobs) EXPECT_TRUE(becomes(job["name"], "cancelled"));
}

// Wherever it is killed, the next with its directory finds the job, or makes the only one.
TEST_F(JobsCommandTest, OfASubmissionThatIsKilledThereIsOneJobOrNone) {
  program("echo x >> \"$2\"; sleep 1");
  for (int round = 0; round < 12; ++round) {
    const std::string line = "XDG_STATE_HOME=$PWD/state " +
                             muster_line("submit --job-dir=" + std::to_string(round) + " ./train");
    // The time only decides where it is killed.
    run_shell("cd " + directory_.path() + "; timeout --signal=KILL 0.0" +
              std::to_string(10 + round * 2) + " env " + line + "; env " + line);
  }
  for (int round = 0; round < 12; ++round) {
    ASSERT_TRUE(is_written(std::to_string(round)));
    EXPECT_EQ(read(std::to_string(round)), "x\n") << round;
  }
}

// A search is claimed as a job is; its trials continue until the other command has ended.
TEST_F(JobsCommandTest, OfTwoSearchesAtATimeOneWins) {
  program("for i in {1..600}; do [ -e go ] && exit 3; sleep 0.05; done");
  write("search.yaml",
        "scaleTier: BASIC\nhyperparameters:\n  goal: MAXIMIZE\n  maxTrials: 1\n  params:\n"
        "  - {parameterName: lr, type: DOUBLE, minValue: 1, maxValue: 2}\n");
  // A directory for each: what continues with a search that is over has ended before the other
  // comes.
  std::string dir;
  const auto line = [&](const std::string& flags, const char* out) {
    return "{ XDG_STATE_HOME=$PWD/state " + muster_line("submit --job-dir=" + dir + " " + flags) +
           " ./train > " + out + " 2>&1; } & ";
  };
  const std::string search = "--config=search.yaml";
  for (const std::string& other : {search, std::string("--wait")}) {
    dir += "run";
    write("both", line(search, "one") + line(other, "two") + "wait -n; touch go; wait\n");
    run_shell("cd " + directory_.path() + "; bash both; rm go");
    int lost = 0;
    for (const std::string& text : {read("one"), read("two")}) {
      if (text.find("error: the job directory " + dir + " is that of the job ") !=
          std::string::npos) {
        ++lost;
      }
    }
    EXPECT_EQ(lost, 1) << read("one") << read("two");
  }
}

}  // namespace
}  // namespace muster::app
