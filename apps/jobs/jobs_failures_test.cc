// The output of `muster jobs status` for failed jobs, with programs that are scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/jobs/job_commands.h"

namespace muster::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class JobFailuresTest : public JobCommands {
 protected:
  JobFailuresTest() { write("config.yaml", kTutorialConfig); }
};

TEST_F(JobFailuresTest, AFailureIsToldAndItsCodePassedOn) {
  program(
      "[[ $TF_CONFIG == *'\"type\":\"worker\"'* ]] && { echo 'error: no data'; exit 3; }; sleep "
      "0.3");
  const ShellOutput ran = muster("submit --config=config.yaml --name=bad --wait ./train");
  EXPECT_EQ(ran.code, 3) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("bad failed: worker-0: exit code 3"));
  EXPECT_EQ(status("bad")["exit_code"], 3);
  EXPECT_THAT(muster("jobs status bad").text,
              HasSubstr("worker-0, exit code 3, said last:\n  error: no data\n"));
  EXPECT_EQ(status("bad")["error"]["task"], "worker-0");
  EXPECT_EQ(status("bad")["error"]["lines"][0], "error: no data");
}

// The worker ends first, with an error that only repeats the chief's.
TEST_F(JobFailuresTest, TheOneThatFailedFirstIsToldWhicheverEndsFirst) {
  program(
      "if [[ $TF_CONFIG == *'\"type\":\"worker\"'* ]]; then\n"
      "  echo 'E 12:00:00 InvalidArgument: chief failed at step 0 (building): no folder' >&2\n"
      "  touch ended; exit 2\n"
      "fi\n"
      "for i in {1..1200}; do [ -e ended ] && break; sleep 0.05; done; sleep 0.3\n"
      "printf 'E 12:00:00 NotFound: no folder\\n  missing a\\n  hint: make one\\n' >&2; exit 2");
  EXPECT_EQ(muster("submit --config=config.yaml --name=bad --wait ./train").code, 2);
  const auto said = status("bad");
  EXPECT_EQ(said["detail"], "chief-0: exit code 2");
  EXPECT_EQ(said["error"]["task"], "chief-0");
  EXPECT_THAT(muster("jobs status bad").text,
              AllOf(HasSubstr("failed: chief-0: exit code 2\n"),
                    HasSubstr("said last:\n  E 12:00:00 NotFound: no folder\n    missing a\n"
                              "    hint: make one\n")));
}

TEST_F(JobFailuresTest, OfATaskThatWasKilledItIsToldSo) {
  program("echo 'I 12:00:00 step 1'; kill -9 $$");
  EXPECT_EQ(muster("submit --name=dead --restart=0 --wait ./train").code, 137);
  const std::string killed = "killed by SIGKILL (kill -9, or the machine ran out of memory)\n";
  EXPECT_THAT(muster("jobs status dead").text,
              AllOf(HasSubstr("failed: chief-0: " + killed), Not(HasSubstr("step 1")),
                    HasSubstr("chief-0, exit code 137, printed no error:\n  " + killed)));
}

TEST_F(JobFailuresTest, AnErrorInTheJsonFormOfTheLogIsShownAsWords) {
  program(
      "echo '{\"level\":\"error\",\"message\":\"NotFound: no data\\n  hint: make some\"}' >&2\n"
      "echo '{\"level\":\"info\",\"message\":\"end\"}' >&2; exit 2");
  EXPECT_EQ(muster("submit --name=fit --wait ./train").code, 2);
  EXPECT_THAT(muster("jobs status fit").text,
              HasSubstr("said last:\n  NotFound: no data\n    hint: make some\n"));
}

TEST_F(JobFailuresTest, ADirectoryThatAnotherRunHoldsIsNoReasonToStartAgain) {
  program(
      "echo x >> starts\n"
      "echo \"E 12:00:00 InvalidArgument: model_dir 'm' is in use by process 7 on host\" >&2; exit "
      "2");
  EXPECT_EQ(muster("submit --name=fit --wait ./train").code, 2);
  EXPECT_EQ(read("starts"), "x\n");
  EXPECT_EQ(status("fit")["state"], "failed");
}

}  // namespace
}  // namespace muster::app
