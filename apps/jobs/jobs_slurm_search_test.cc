// A search whose trials are jobs of Slurm. Scripts stand in for its commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/jobs/search_commands.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Commands of Slurm over files in the folder slurm/: a job has a number, a state, a comment and a
// script. The file `asked` lists the requests.
class SlurmSearchTest : public SearchCommandTest {
 protected:
  SlurmSearchTest() {
    std::filesystem::create_directory(directory_ / "slurm");
    // While there is a file `cut`, the submitting process is killed before the answer. With a file
    // `works` a job has measured and ended when it was submitted, else it runs until it is
    // cancelled.
    tool("sbatch",
         "number=$(ls slurm | wc -l); number=$((number / 3 + 17)); echo submit $number >> asked\n"
         "sed -n 's/#SBATCH --comment=//p' \"${@: -1}\" > slurm/$number.comment\n"
         "echo \"${@: -1}\" > slurm/$number.script\n"
         "echo RUNNING > slurm/$number.state\n"
         "if [ -e cut ]; then rm cut; kill -9 $PPID; exit 1; fi\n"
         "if [ -e works ]; then\n"
         "  echo '{\"global_step\": \"1\", \"score\": \"0.5\"}' > tune/1/output.metrics\n"
         "  echo COMPLETED > slurm/$number.state\n"
         "fi\n"
         "echo $number");
    tool("squeue",
         "for one in slurm/*.comment; do [ -e $one ] || continue\n"
         "echo \"$(basename $one .comment) $(cat $one)\"; done");
    tool("scontrol",
         "number=${@: -1}; [ -e slurm/$number.state ] || { echo 'Invalid job id' >&2; exit 1; }\n"
         "echo \"JobId=$number JobState=$(cat slurm/$number.state) ExitCode=0:0 "
         "Command=$(cat slurm/$number.script)\"");
    tool("scancel", "echo cancel $1 >> asked; echo CANCELLED > slurm/$1.state");
    environment_ = "PATH=" + directory_ / "tools" + ":$PATH ";
    write("search.yaml", search_of(1, 1));
  }
  // Kills a search in the middle of the submission of its trial.
  void cut_off(const std::string& flags = "") {
    write("cut", "");
    EXPECT_EQ(muster(command_ + flags).code, 137);
  }

  const std::string command_ =
      "submit --to=slurm --config=search.yaml --job-dir=tune --name=tune true";
};

TEST_F(SlurmSearchTest, ATrialWhoseSubmissionWasCutOffIsEndedBeforeItBeginsAnew) {
  cut_off();
  write("works", "");
  const ShellOutput ran = muster(command_);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("trials of tune outlived it, and are ended: 1"));
  EXPECT_EQ(read("asked"), "submit 17\ncancel 17\nsubmit 18\n");
  EXPECT_EQ(status("tune")["state"], "succeeded");
}

TEST_F(SlurmSearchTest, ATrialWhoseSubmissionWasCutOffIsShownAndCancelled) {
  cut_off();
  EXPECT_THAT(muster("jobs status tune").text, HasSubstr("1 of its trials run on"));
  EXPECT_THAT(muster("jobs remove tune").text, HasSubstr("trials of tune run"));
  // No job begins in the same directory, nor a search on another target.
  const ShellOutput beside = muster("submit --job-dir=tune true");
  EXPECT_EQ(beside.code, 2);
  EXPECT_THAT(beside.text, AllOf(HasSubstr("is that of the job tune, which has ended, and 1 "
                                           "of its trials may run on"),
                                 HasSubstr("muster jobs cancel tune")));
  EXPECT_EQ(muster("submit --config=search.yaml --job-dir=tune true").code, 2);
  EXPECT_EQ(read("asked"), "submit 17\n");
  EXPECT_EQ(muster("jobs cancel tune").code, 0);
  EXPECT_EQ(read("asked"), "submit 17\ncancel 17\n");
  EXPECT_EQ(status("tune")["state"], "cancelled");
  EXPECT_EQ(muster("submit --job-dir=tune --wait true").code, 0);
}

// A user's own comment on a job hides no trial.
TEST_F(SlurmSearchTest, ATrialIsKnownAfterACommentOfTheUsersOwn) {
  const std::string comment = " --slurm=--comment=my=lab";
  cut_off(comment);
  EXPECT_THAT(read("slurm/17.comment"), StartsWith("my=lab:s"));
  EXPECT_THAT(muster("jobs status tune").text, HasSubstr("1 of its trials run on"));
  write("works", "");
  const ShellOutput ran = muster(command_ + comment);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(read("asked"), "submit 17\ncancel 17\nsubmit 18\n");
}

// A trial that may still come is neither ended nor forgotten by mistake.
TEST_F(SlurmSearchTest, WhileATrialMayComeItsSearchIsNotOver) {
  cut_off();
  tool("squeue-later", read("tools/squeue"));
  tool("squeue", "[ -e shown ] && exec ./tools/squeue-later; exit 0");
  EXPECT_THAT(muster("jobs status tune").text,
              HasSubstr("trial 1, whose submission did not end, may still come"));
  const ShellOutput early = muster("jobs cancel tune");
  EXPECT_EQ(early.code, 1);
  EXPECT_THAT(early.text, AllOf(HasSubstr("error: the submission of trial 1 of the search tune to "
                                          "slurm did not end, and it may still come"),
                                HasSubstr("wait for some minutes")));
  EXPECT_THAT(muster("jobs remove tune").text,
              HasSubstr("error: trials of tune run, or may still begin"));
  write("shown", "");
  EXPECT_EQ(muster("jobs cancel tune").code, 0);
  EXPECT_EQ(read("asked"), "submit 17\ncancel 17\n");
  EXPECT_EQ(muster("jobs remove tune").code, 0);
}

TEST_F(SlurmSearchTest, WhileSlurmIsAwayNothingBeginsBesideItsTrials) {
  cut_off();
  for (const char* name : {"squeue", "scontrol"})
    tool(name, "echo 'Unable to contact slurm controller' >&2; exit 1");
  for (const std::string& command : {command_, std::string("submit --job-dir=tune true")}) {
    const ShellOutput ran = muster(command);
    EXPECT_EQ(ran.code, 2) << ran.text;
    EXPECT_THAT(ran.text, AllOf(HasSubstr("is that of the job tune, of which slurm does not tell "
                                          "how it is: Slurm does not answer"),
                                HasSubstr("muster jobs remove tune")));
  }
  EXPECT_EQ(read("asked"), "submit 17\n");
}

// sbatch gets no answer, and Slurm has the job.
TEST_F(SlurmSearchTest, ATrialWithoutAnAnswerRunsOnce) {
  write("works", "");
  const std::string sbatch = read("tools/sbatch");
  tool("sbatch", sbatch.substr(sbatch.find('\n') + 1) +
                     " > /dev/null; echo 'Socket timed out on send/recv operation' >&2; exit 1");
  tool("squeue-later", read("tools/squeue"));
  // It does not show the job at once.
  tool("squeue", "[ -e looked ] || { touch looked; exit 0; }; exec ./tools/squeue-later");
  const ShellOutput ran = muster(command_);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("whether slurm has the job tune-1 now is not known"));
  EXPECT_EQ(read("asked"), "submit 17\n");
}

}  // namespace
}  // namespace muster::app
