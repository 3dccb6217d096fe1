// `muster submit` and `muster jobs` where other systems are away, silent, or say something else, by
// scripts in place of their commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "apps/jobs/job_commands.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class JobsElsewhereTest : public JobCommands {
 protected:
  JobsElsewhereTest() {
    write("config.yaml", kTutorialConfig);
    environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
  }
};

// Commands of Slurm whose controller is down, by scripts in their place.
TEST_F(JobsElsewhereTest, AJobThatCannotBeAskedForIsNotForgotten) {
  tool("sbatch", "echo 17");
  tool("scontrol", "echo x >> asked; echo 'Unable to contact slurm controller' >&2; exit 1");
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
TEST_F(JobsElsewhereTest, ADirectoryIsFreeWhenItsJobIsGoneAndNotWhenNobodySays) {
  const std::string there =
      R"('{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "kubernetes-chief", )"
      R"("namespace": "lab", "uid": "1"}}')";
  tool("sbatch", "echo 17");
  tool("kubectl", "case \"$*\" in *create*) echo " + there + ";; esac");
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
    EXPECT_THAT(refused.text, AllOf(HasSubstr("is that of the job " + one.target +
                                              ", whose state " + one.target + " does not report"),
                                    HasSubstr(one.said),
                                    HasSubstr("hint: give this job another --job-dir, or "
                                              "wait, and try again; muster jobs remove " +
                                              one.target + " forgets that one")));
    EXPECT_THAT(muster("submit --dry-run " + dir + " true").text, HasSubstr("cannot be"));
    tool(one.tool, one.gone);
    EXPECT_EQ(muster("submit --wait " + dir + " true").code, 0);
    EXPECT_EQ(status(one.target)["state"], "unknown");
  }
}

// A job that was once seen to have ended stays ended, also if its target is unreachable.
TEST_F(JobsElsewhereTest, AnEndThatWasSeenIsToldWithoutAsking) {
  tool("sbatch", "echo 17");
  tool("scontrol",
       "echo \"JobId=17 JobState=FAILED ExitCode=3:0 "
       "Command=$PWD/state/muster/jobs/a/job.sbatch\"");
  ASSERT_EQ(muster("submit --to=slurm --name=a --job-dir=d true").code, 0);
  EXPECT_EQ(status("a")["state"], "failed");
  tool("scontrol", "echo x >> asked; echo 'Unable to contact slurm controller' >&2; exit 1");
  EXPECT_EQ(status("a")["state"], "failed");
  EXPECT_EQ(status("a")["exit_code"], 3);
  EXPECT_THAT(muster("jobs list").text, HasSubstr("failed"));
  EXPECT_THAT(muster("jobs cancel a").text, HasSubstr("a failed already"));
  EXPECT_EQ(muster("jobs logs --follow a").code, 3);
  // Its directory is free.
  EXPECT_EQ(muster("submit --wait --job-dir=d true").code, 0);
  EXPECT_EQ(muster("jobs remove a").code, 0);
  EXPECT_EQ(read("asked"), "");
}

// A command says what it waits for, and for how long.
TEST_F(JobsElsewhereTest, ASilentControllerIsToldOfAndAskedOnce) {
  tool("squeue", "exit 1");
  // Two whose submission was killed, and two that were submitted.
  tool("sbatch", "kill -9 $PPID");
  for (const char* name : {"a", "b"})
    ASSERT_NE(muster("submit --to=slurm --name=" + std::string(name) + " true -- " + name).code, 0);
  tool("sbatch", "echo 17");
  for (const char* name : {"c", "d"})
    ASSERT_EQ(muster("submit --to=slurm --name=" + std::string(name) + " true").code, 0);
  // Longer than a command is silent.
  tool("scontrol", "echo x >> asked; sleep 3.5; echo 'Unable to contact' >&2; exit 1");
  tool("squeue", "echo x >> asked; sleep 3.5; echo 'Unable to contact' >&2; exit 1");
  const ShellOutput list = muster("jobs list");
  EXPECT_EQ(list.code, 0);
  EXPECT_THAT(list.text,
              HasSubstr("waiting for Slurm (squeue); no answer for 3 s, giving up after 30 s\n"));
  EXPECT_EQ(read("asked"), "x\n");
}

// Jobs of other kinds, and of other namespaces, are asked for in the same cluster.
TEST_F(JobsElsewhereTest, AClusterThatIsAwayIsAskedOnceForAllKindsOfJobs) {
  tool("kubectl", R"(case "$*" in *create*) echo '{"apiVersion": "x/v1", "kind": "x", "metadata": )"
                  R"({"name": "x", "namespace": "lab", "uid": "1"}}';; )"
                  "*--ignore-not-found*) ;; *api-resources*) echo tfjobs.kubeflow.org;; "
                  "*) echo x >> asked; echo 'error: i/o timeout' >&2; exit 1;; esac");
  const std::string submit = "submit --to=kubernetes --image=x ";
  ASSERT_EQ(muster(submit + "--name=a true").code, 0);
  const ShellOutput other = muster(submit + "--name=b --kind=tfjob --namespace=n true");
  ASSERT_EQ(other.code, 0) << other.text;
  EXPECT_THAT(muster("jobs list").text, HasSubstr("unknown"));
  EXPECT_EQ(read("asked"), "x\n");
}

// One that another command submits at this moment says nothing about its target.
TEST_F(JobsElsewhereTest, AJobThatIsBeingSubmittedHidesNoOther) {
  tool("sbatch", "echo 17");
  tool("scontrol",
       "echo \"JobId=17 JobState=RUNNING Command=$PWD/state/muster/jobs/a/job.sbatch\"");
  ASSERT_EQ(muster("submit --to=slurm --name=a true").code, 0);
  // It waits for 60 s at most.
  tool("sbatch",
       "touch begun; for i in {1..6000}; do [ -e go ] && break; sleep 0.01; done; echo 18");
  std::thread submitting([&] { EXPECT_EQ(muster("submit --to=slurm --name=b true").code, 0); });
  EXPECT_TRUE(appears("begun"));
  const ShellOutput listed = muster("jobs list b a");
  write("go", "");
  submitting.join();
  EXPECT_THAT(listed.text,
              AllOf(ContainsRegex("b +slurm +unknown"), ContainsRegex("a +slurm +running")));
}

// Tasks of a job that failed may run on, and be more before they are fewer: the Job of another role
// does not know of it.
TEST_F(JobsElsewhereTest, TasksThatAFailedJobHasLeftCanBeEnded) {
  tool("kubectl", R"(case "$*" in
*create*) echo '{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "k-chief",)"
                  R"( "namespace": "lab", "uid": "1"}}';;
*logs*) echo 'E no data';;
*delete*) touch deleted;;
*--ignore-not-found*) ;;
*) [ -e deleted ] && echo '{"items": []}' || cat items;; esac)");
  const auto item = [](const std::string& kind, const std::string& role,
                       const std::string& status) {
    return R"({"kind": ")" + kind + R"(", "metadata": {"name": ")" + role +
           R"(", "labels": {"app.kubernetes.io/component": ")" + role + R"("}}, "status": )" +
           status + "}";
  };
  const auto items = [&](const std::string& chief) {
    write("items",
          R"({"items": [)" + item("Job", "chief", "{}") + "," +
              item("Job", "worker", R"({"conditions": [{"type": "Failed", "status": "True"}]})") +
              "," + item("Pod", "chief", R"({"phase": ")" + chief + "\"}") + "," +
              item("Pod", "worker", R"({"phase": "Failed"})") + "]}");
  };
  ASSERT_EQ(
      muster("submit --to=kubernetes --image=x --name=k --job-dir=d --config=config.yaml true")
          .code,
      0);
  // The chief's pod has failed as well, and its Job starts another one after a while.
  items("Failed");
  EXPECT_EQ(status("k")["state"], "failed");
  items("Running");
  EXPECT_EQ(status("k")["tasks"][0]["state"], "running");
  const ShellOutput removed = muster("jobs remove k");
  EXPECT_EQ(removed.code, 2);
  EXPECT_THAT(removed.text, HasSubstr("tasks of k still exist on kubernetes"));
  const ShellOutput taken = muster("submit --wait --job-dir=d true");
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.text, AllOf(HasSubstr("tasks of it are still there on kubernetes"),
                                HasSubstr("muster jobs cancel k")));
  EXPECT_THAT(muster("jobs cancel k").text, HasSubstr("k was asked to end"));
  // What the job came to stands.
  EXPECT_EQ(status("k")["state"], "failed");
  EXPECT_EQ(status("k")["tasks"][0]["state"], "cancelled");
  EXPECT_EQ(muster("submit --wait --job-dir=d true").code, 0);
  EXPECT_EQ(muster("jobs remove k").code, 0);
}

// A controller is restarted now and then.
TEST_F(JobsElsewhereTest, FollowingOutlivesAControllerThatIsAway) {
  tool("sbatch", "echo 17");
  tool("scontrol",
       "echo x >> asked; [ $(wc -l < asked) -lt 3 ] && { echo 'Unable to contact' >&2; exit 1; }\n"
       "echo \"JobId=17 JobState=COMPLETED ExitCode=0:0 "
       "Command=$PWD/state/muster/jobs/a/job.sbatch\"");
  const ShellOutput ran = muster("submit --to=slurm --name=a --wait true");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("a succeeded"));
}

// The codes are those of every command: 138 reads like a signal to who did not ask for a restart.
TEST_F(JobsElsewhereTest, AnotherSystemThatIsNotThereIsAPlainError) {
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

// As after Ctrl-C while a target was asked.
TEST_F(JobsElsewhereTest, ASubmissionThatWasCutOffCanBeForgotten) {
  tool("sbatch", "kill -9 $PPID");
  EXPECT_NE(muster("submit --to=slurm --name=cut true").code, 0);
  EXPECT_THAT(muster("jobs status cut").text, HasSubstr("its submission was interrupted"));
  for (const char* command : {"cancel", "logs"}) {
    const ShellOutput ran = muster(std::string("jobs ") + command + " cut");
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.text, AllOf(HasSubstr("its submission was interrupted"), HasSubstr("slurm")));
  }
  EXPECT_EQ(muster("jobs remove cut").code, 0);
}

// sbatch was heard and its answer was not, as when the controller is busy.
TEST_F(JobsElsewhereTest, ASubmissionWithoutAnAnswerIsRecognised) {
  tool("sbatch",
       "sed -n 's/#SBATCH --comment=//p' \"$2\" > comment; echo x >> submitted\n"
       "echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1");
  tool("squeue", "echo '16 another'; [ -e shown ] && echo \"17 $(cat comment)\"; exit 0");
  tool("scontrol",
       "echo \"JobId=17 JobState=RUNNING Command=$PWD/state/muster/jobs/true-1/job.sbatch\"");
  const ShellOutput lost = muster("submit --to=slurm true");
  EXPECT_NE(lost.code, 0);
  EXPECT_THAT(lost.text,
              AllOf(HasSubstr("Socket timed out"), HasSubstr("muster jobs status true-1")));
  // The second try is none, whatever name it would have.
  const ShellOutput again = muster("submit --to=slurm true");
  EXPECT_EQ(again.code, 2) << again.text;
  EXPECT_THAT(again.text, AllOf(HasSubstr("the job true-1 is of the same command"),
                                HasSubstr("may still appear"), HasSubstr("jobs remove true-1")));
  EXPECT_EQ(read("submitted"), "x\n");
  EXPECT_EQ(muster("submit --to=slurm --name=other true -- --other").code, 1);
  // It is another command, so it was tried.
  EXPECT_EQ(read("submitted"), "x\nx\n");
  EXPECT_EQ(muster("jobs remove other").code, 0);

  tool("squeue", "echo '16 another'; echo \"17 $(cat comment)\"");
  // The comment is the last one's: the first is not there.
  EXPECT_EQ(status("true-1")["state"], "unknown");
  EXPECT_EQ(muster("jobs remove true-1").code, 0);
  // An answer that is none is not an other case.
  tool("squeue", "exit 0");
  tool("sbatch", "echo welcome");
  const ShellOutput odd = muster("submit --to=slurm --name=odd true -- --odd");
  EXPECT_THAT(odd.text, AllOf(HasSubstr("answered 'welcome', where a job's number belongs"),
                              HasSubstr("whether slurm has the job odd now is not known")));
  tool("sbatch", "kill -9 $$");
  EXPECT_THAT(muster("submit --to=slurm --name=killed true -- --killed").text,
              HasSubstr("whether slurm has the job killed now is not known"));
  // Forgetting such a job says what is unknown.
  tool("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1");
  const ShellOutput removed = muster("jobs remove killed");
  EXPECT_EQ(removed.code, 0);
  EXPECT_THAT(removed.text,
              AllOf(HasSubstr("its submission was interrupted; Slurm does not answer"),
                    HasSubstr("the record of killed is removed")));
  tool("sbatch", "sed -n 's/#SBATCH --comment=//p' \"$2\" > comment; echo lost");
  tool("squeue", "echo '16 another'; echo \"17 $(cat comment)\"");
  // Where Slurm shows the job, its number is all that was missing.
  const ShellOutput there = muster("submit --to=slurm true");
  EXPECT_EQ(there.code, 0) << there.text;
  EXPECT_THAT(there.text, HasSubstr("true-1 is submitted to slurm as 17"));
  EXPECT_EQ(status("true-1")["state"], "running");
}

}  // namespace
}  // namespace muster::app
