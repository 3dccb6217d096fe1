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

#include "apps/muster/job_commands.h"

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
  EXPECT_THAT(muster("jobs logs --task=chief-1 leaves").text, HasSubstr("did you mean chief-0?"));
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
  EXPECT_THAT(muster("jobs remove train-1").text, HasSubstr("end it first"));
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

TEST_F(JobsCommandTest, AFailureIsToldAndItsCodePassedOn) {
  program(
      "[[ $TF_CONFIG == *'\"type\":\"worker\"'* ]] && { echo 'error: no data'; exit 3; }; sleep "
      "0.3");
  const ShellOutput ran = muster("submit --config=config.yaml --name=bad --wait ./train");
  EXPECT_EQ(ran.code, 3) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("bad failed: worker-0: exit code 3"));
  EXPECT_EQ(status("bad")["exit_code"], 3);
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
  EXPECT_THAT(muster("jobs status lost").text, HasSubstr("the process that kept it is gone"));
  // Its tasks go with it; nobody may be there to take their exit status.
  const std::string pid = read("pid");
  const auto is_gone = [&] {
    const ShellOutput stat = run_shell("ps -o stat= -p " + pid);
    return stat.code != 0 || stat.text.starts_with("Z");
  };
  const auto end = std::chrono::steady_clock::now() + 60s;
  // It is no child of this process, which could wait for it, so it is looked for now and then.
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
           {"submit --max-trials=3 true", "--max-trials is for a search, and there is no --config"},
           {"submit --config=good.yaml --seed=3 true",
            "--seed is for a search, and good.yaml has no hyperparameters"},
           {"submit --parallel-trials=2 true", "--parallel-trials is for a search"},
           {"submit --job-dir=s3:b/x true", "hint: write s3://b/x"},
           {"submit --config=gs:/b/job.yaml true", "hint: write gs://b/job.yaml"},
           {"submit --job-dir=good.yaml/run true", "good.yaml is a file"},
           {"submit --to=slurm --dry-run --job-dir=good.yaml true", "good.yaml is a file"},
           {"submit --name=A_b true", "cannot be the name of a job"},
           {"submit no_such_program_anywhere", "was found neither in PATH"},
           {"submit trian", "did you mean ./train?"},
           {"submit --slurm=--partition=x true", "--slurm is for --to=slurm"},
           {"submit --to=slurm --slurm=gpu --dry-run true", "is no flag of sbatch"},
           {"jobs status nothing", "there is no job 'nothing'"},
           {"jobs", "needs a command"},
           {"jobs kepe", "take one of: list, status, logs, cancel, remove\n"},
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

// Whoever chose a launcher by hand did not choose for the tasks of a job.
TEST_F(JobsCommandTest, TasksBelieveTheirOwnCluster) {
  program("echo \"chosen: ${MUSTER_CLUSTER-none}\"; echo \"rank: ${RANK-none}${WORLD_SIZE-}\"");
  environment_ = "MUSTER_CLUSTER=local RANK=2 WORLD_SIZE=3 MASTER_ADDR=host0 ";
  const ShellOutput ran = muster("submit --workers=2 --wait ./train");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr("[worker-1] chosen: none\n"), Not(HasSubstr("local\n")),
                              HasSubstr("[worker-1] rank: none\n")));
}

// Commands of Slurm whose controller is down, by scripts in their place.
TEST_F(JobsCommandTest, AJobThatCannotBeAskedForIsNotForgotten) {
  const auto tool = [&](const std::string& name, const std::string& lines) {
    program(lines);
    std::filesystem::create_directory(directory_ / "tools");
    std::filesystem::rename(directory_ / "train", directory_ / "tools/" + name);
  };
  tool("sbatch", "echo 17");
  tool("scontrol", "echo x >> asked; echo 'Unable to contact slurm controller' >&2; exit 1");
  environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  ASSERT_EQ(muster("submit --to=slurm --name=a true").code, 0);
  ASSERT_EQ(muster("submit --to=slurm --name=b true").code, 0);
  EXPECT_EQ(status("a")["state"], "unknown");
  const ShellOutput removed = muster("jobs remove a");
  EXPECT_NE(removed.code, 0);
  EXPECT_THAT(removed.text, AllOf(HasSubstr("Slurm does not answer"), HasSubstr("rm -r")));
  // A list does not wait for the same controller again and again.
  std::filesystem::remove(directory_ / "asked");
  EXPECT_THAT(muster("jobs list").text, HasSubstr("unknown"));
  EXPECT_EQ(read("asked"), "x\n");

  tool("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  EXPECT_EQ(muster("jobs remove a").code, 0);
  // Another cluster has the number now.
  tool("scontrol", "echo 'JobId=17 JobState=RUNNING Command=/other/job.sbatch WorkDir=/'");
  tool("scancel", "touch cancelled");
  EXPECT_EQ(status("b")["state"], "unknown");
  muster("jobs cancel b");
  EXPECT_FALSE(std::filesystem::exists(directory_ / "cancelled"));
  // What is cut says what it is, and not that the job is gone.
  tool("scontrol", "echo 'JobId=17 JobSt'");
  EXPECT_THAT(muster("jobs status b").text,
              HasSubstr("scontrol --oneliner show job 17 answered 'JobId=17 JobSt', without"));
}

// Whether a job runs that cannot be asked for nobody knows, so its directory is not free.
TEST_F(JobsCommandTest, ADirectoryIsFreeWhenItsJobIsGoneAndNotWhenNobodySays) {
  std::filesystem::create_directory(directory_ / "tools");
  const auto tool = [&](const std::string& name, const std::string& lines) {
    program(lines);
    std::filesystem::rename(directory_ / "train", directory_ / "tools/" + name);
  };
  environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  const std::string there =
      R"('{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "kubernetes-chief", )"
      R"("namespace": "lab", "uid": "1"}}')";
  tool("sbatch", "echo 17");
  tool("kubectl", "echo " + there);
  struct Case {
    std::string target, tool, away, gone, said;
  };
  for (const Case& one :
       {Case{"slurm", "scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1",
             "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
             "Slurm does not answer"},
        Case{"kubernetes", "kubectl", "echo 'error: dial tcp: i/o timeout' >&2; exit 1",
             "echo '{\"items\": []}'", "i/o timeout"}}) {
    const std::string dir = "--job-dir=" + one.target;
    const std::string flags = one.target == "slurm" ? " true" : " --image=x true";
    ASSERT_EQ(
        muster("submit --to=" + one.target + " --name=" + one.target + " " + dir + flags).code, 0);
    tool(one.tool, one.away);
    const ShellOutput refused = muster("submit --wait " + dir + " true");
    EXPECT_EQ(refused.code, 2) << refused.text;
    EXPECT_THAT(refused.text, AllOf(HasSubstr("is that of the job " + one.target + ", of which " +
                                              one.target + " does not tell how it is"),
                                    HasSubstr(one.said),
                                    HasSubstr("hint: give this job another --job-dir, or "
                                              "wait, and try again; muster jobs remove " +
                                              one.target + " forgets that one")));
    EXPECT_THAT(muster("submit --dry-run " + dir + " true").text, HasSubstr("would not be"));
    tool(one.tool, one.gone);
    EXPECT_EQ(muster("submit --wait " + dir + " true").code, 0);
    EXPECT_EQ(status(one.target)["state"], "unknown");
  }
}

// A controller is restarted now and then.
TEST_F(JobsCommandTest, FollowingOutlivesAControllerThatIsAway) {
  std::filesystem::create_directory(directory_ / "tools");
  program("echo 17");
  std::filesystem::rename(directory_ / "train", directory_ / "tools/sbatch");
  program(
      "echo x >> asked; [ $(wc -l < asked) -lt 3 ] && { echo 'Unable to contact' >&2; exit 1; }\n"
      "echo \"JobId=17 JobState=COMPLETED ExitCode=0:0 "
      "Command=$PWD/state/muster/jobs/a/job.sbatch\"");
  std::filesystem::rename(directory_ / "train", directory_ / "tools/scontrol");
  environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  const ShellOutput ran = muster("submit --to=slurm --name=a --wait true");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("a succeeded"));
}

// The codes are those of every command: 138 reads like a signal to who did not ask for a restart.
TEST_F(JobsCommandTest, AnotherSystemThatIsNotThereIsAPlainError) {
  const auto tool = [&](const std::string& name, const std::string& lines) {
    program(lines);
    std::filesystem::create_directory(directory_ / "tools");
    std::filesystem::rename(directory_ / "train", directory_ / "tools/" + name);
  };
  environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  const std::string kubernetes = "submit --to=kubernetes --image=i --name=k ./train";
  tool("kubectl", "echo 'The connection to the server localhost:8080 was refused' >&2; exit 1");
  const ShellOutput refused = muster(kubernetes);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, HasSubstr("does `kubectl get pods` work?"));
  // As kubectl says it that wants to know the fields of what is created.
  tool("kubectl",
       "echo 'error: failed to download openapi: connect: connection refused; if you "
       "choose to ignore these errors, turn validation off' >&2; exit 1");
  EXPECT_THAT(muster(kubernetes).text,
              AllOf(HasSubstr("connect: connection refused\n"), Not(HasSubstr("validation off"))));
  const std::string slurm = "submit --to=slurm --name=s --config=config.yaml true";
  for (const char* says : {"sbatch: error: Batch job submission failed: Unable to contact slurm "
                           "controller (connect failure)",
                           "sbatch: error: res_nsearch error: Unknown host\nsbatch: fatal: Could "
                           "not establish a configuration source"}) {
    tool("sbatch", "printf '" + std::string(says) + "\n' >&2; exit 1");
    const ShellOutput away = muster(slurm);
    EXPECT_EQ(away.code, 1);
    const std::string line(says);
    EXPECT_THAT(away.text, AllOf(HasSubstr("error: Slurm does not answer: " +
                                           line.substr(line.find('\n') + 1)),
                                 HasSubstr("scontrol ping"), HasSubstr("a login node"),
                                 Not(HasSubstr("--no-accelerators"))));
  }
  // Nothing is there, so that nothing is left of it.
  EXPECT_THAT(muster("jobs list").text, HasSubstr("no jobs"));
  for (const char* name : {"kubectl", "sbatch", "gcloud"}) tool(name, "kill -SEGV $$");
  for (const std::string& line :
       {kubernetes, slurm, std::string("submit --to=vertex --region=us-central1 --image=i")}) {
    const ShellOutput killed = muster(line);
    EXPECT_EQ(killed.code, 1) << line << killed.text;
    EXPECT_THAT(killed.text, HasSubstr("was killed by SIGSEGV")) << line;
  }
  EXPECT_EQ(muster("jobs cancel k").code, 2);
}

TEST_F(JobsCommandTest, TheSameCommandGoesOnUnderItsName) {
  program("echo \"start\"; [ -e again ] && exit 0; touch again; exit 3");
  const std::string command = "submit --name=fit --job-dir=run --wait ./train";
  EXPECT_EQ(muster(command).code, 3);
  EXPECT_THAT(muster("submit --name=fit --job-dir=run ./train -- --other").text,
              HasSubstr("there is a job 'fit' already"));
  const ShellOutput again = muster(command);
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_THAT(again.text, HasSubstr("the same job fit had ended"));
  EXPECT_EQ(status("fit")["state"], "succeeded");
}

// As after Ctrl-C while a target was asked.
TEST_F(JobsCommandTest, ASubmissionThatWasCutOffCanBeForgotten) {
  program("kill -9 $PPID");
  std::filesystem::create_directory(directory_ / "tools");
  std::filesystem::rename(directory_ / "train", directory_ / "tools/sbatch");
  environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  EXPECT_NE(muster("submit --to=slurm --name=cut true").code, 0);
  EXPECT_THAT(muster("jobs status cut").text, HasSubstr("its submission did not end"));
  for (const char* command : {"cancel", "logs"}) {
    const ShellOutput ran = muster(std::string("jobs ") + command + " cut");
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.text, AllOf(HasSubstr("its submission did not end"), HasSubstr("slurm")));
  }
  EXPECT_EQ(muster("jobs remove cut").code, 0);
}

// sbatch was heard and its answer was not, as when the controller is busy.
TEST_F(JobsCommandTest, ASubmissionWithoutAnAnswerIsRecognised) {
  std::filesystem::create_directory(directory_ / "tools");
  const auto tool = [&](const std::string& name, const std::string& lines) {
    program(lines);
    std::filesystem::rename(directory_ / "train", directory_ / "tools/" + name);
  };
  tool("sbatch",
       "sed -n 's/#SBATCH --comment=//p' \"$2\" > comment; echo x >> submitted\n"
       "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1");
  tool("squeue", "echo '16 another'; [ -e shown ] && echo \"17 $(cat comment)\"; exit 0");
  tool("scontrol",
       "echo \"JobId=17 JobState=RUNNING Command=$PWD/state/muster/jobs/true-1/job.sbatch\"");
  environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  const ShellOutput lost = muster("submit --to=slurm true");
  EXPECT_NE(lost.code, 0);
  EXPECT_THAT(lost.text,
              AllOf(HasSubstr("Socket timed out"), HasSubstr("muster jobs status true-1")));
  // The second try is none, whatever name it would have.
  const ShellOutput again = muster("submit --to=slurm true");
  EXPECT_EQ(again.code, 2) << again.text;
  EXPECT_THAT(again.text, AllOf(HasSubstr("the job true-1 is of the same command"),
                                HasSubstr("may still come"), HasSubstr("jobs remove true-1")));
  EXPECT_EQ(read("submitted"), "x\n");
  EXPECT_EQ(muster("submit --to=slurm --name=other true -- --other").code, 1);
  // It is another command, so it was tried.
  EXPECT_EQ(read("submitted"), "x\nx\n");
  EXPECT_EQ(muster("jobs remove other").code, 0);

  tool("squeue", "echo '16 another'; echo \"17 $(cat comment)\"");
  // The comment is the last one's: the first is not there.
  EXPECT_EQ(status("true-1")["state"], "unknown");
  EXPECT_EQ(muster("jobs remove true-1").code, 0);
  // An answer that is none is no other case.
  tool("squeue", "exit 0");
  tool("sbatch", "echo welcome");
  const ShellOutput odd = muster("submit --to=slurm --name=odd true -- --odd");
  EXPECT_THAT(odd.text, AllOf(HasSubstr("answered 'welcome', where a job's number belongs"),
                              HasSubstr("whether slurm has the job odd now is not known")));
  tool("sbatch", "kill -9 $$");
  EXPECT_THAT(muster("submit --to=slurm --name=killed true -- --killed").text,
              HasSubstr("whether slurm has the job killed now is not known"));
  // Whoever forgets one is told what nobody knows.
  tool("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1");
  const ShellOutput removed = muster("jobs remove killed");
  EXPECT_EQ(removed.code, 0);
  EXPECT_THAT(removed.text, AllOf(HasSubstr("its submission did not end; Slurm does not answer"),
                                  HasSubstr("killed is forgotten")));
  tool("sbatch", "sed -n 's/#SBATCH --comment=//p' \"$2\" > comment; echo lost");
  tool("squeue", "echo '16 another'; echo \"17 $(cat comment)\"");
  // Where Slurm shows the job, its number is all that was missing.
  const ShellOutput there = muster("submit --to=slurm true");
  EXPECT_EQ(there.code, 0) << there.text;
  EXPECT_THAT(there.text, HasSubstr("true-1 is submitted to slurm as 17"));
  EXPECT_EQ(status("true-1")["state"], "running");
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
  // A dry run says what would be in the way, and prints the job all the same.
  const ShellOutput dry = muster("submit --dry-run --name=named0 --job-dir=run0 ./train");
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.text,
              AllOf(HasSubstr("would not be submitted: there is a job 'named0' already"),
                    HasSubstr("would not be submitted: the job directory run0 is that of"),
                    HasSubstr("TF_CONFIG=")));
  EXPECT_THAT(muster("submit --dry-run --name=free --job-dir=free ./train").text,
              Not(HasSubstr("would not")));
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
    ASSERT_TRUE(appears(std::to_string(round)));
    EXPECT_EQ(read(std::to_string(round)), "x\n") << round;
  }
}

// A search is claimed as a job is; its trials go on until the other command has ended.
TEST_F(JobsCommandTest, OfTwoSearchesAtATimeOneWins) {
  program("for i in {1..600}; do [ -e go ] && exit 3; sleep 0.05; done");
  write("search.yaml",
        "scaleTier: BASIC\nhyperparameters:\n  goal: MAXIMIZE\n  maxTrials: 1\n  params:\n"
        "  - {parameterName: lr, type: DOUBLE, minValue: 1, maxValue: 2}\n");
  // A directory for each: what goes on with a search that is over has ended before the other comes.
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
