#include "muster/launch/supervise.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "muster/base/error.h"
#include "muster/launch/internal/supervise_testing.h"

namespace muster::inline v0_1::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SuperviseTest, LinesArePrefixedAndWhole) {
  const std::string talk =
      "for i in {1..200}; do printf 'first half '; echo \"second half $i\"; done; printf 'no end'";
  const Outcome outcome = supervise_scripts({talk, talk + "; echo oops >&2"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_FALSE(outcome.root_cause.has_value());
  std::istringstream lines(read("out"));
  std::string line;
  int count = 0;
  int unended = 0;
  while (std::getline(lines, line)) {
    const bool known = line.starts_with("[worker 0] ") || line.starts_with("[worker 1] ");
    ASSERT_TRUE(known) << line;
    const std::string text = line.substr(11);
    if (text == "no end") {
      ++unended;
    } else {
      ASSERT_TRUE(text.starts_with("first half second half ")) << line;
      ++count;
    }
  }
  EXPECT_EQ(count, 400);
  EXPECT_EQ(unended, 2);
  EXPECT_EQ(read("err"), "[worker 1] oops\n");
}

TEST_F(SuperviseTest, WhoKeepsARecordIsToldOfEachStartLineAndEnd) {
  std::vector<std::string> told;
  SuperviseOptions options;
  options.on_start = [&](std::size_t task) { told.push_back("start " + std::to_string(task)); };
  options.on_line = [&](std::size_t, std::string_view line) { told.emplace_back(line); };
  options.on_exit = [&](std::size_t task, const ExitStatus& status) {
    told.push_back("exit " + std::to_string(task) + " " + std::to_string(status.code));
  };
  std::vector<ProcessSpec> processes = {
      process("worker 0", "[ -e again ] && { echo done; exit 0; }; touch again; exit 138")};
  processes[0].restarts = 1;
  EXPECT_EQ(supervise_here(processes, options).exit_code, 0);
  EXPECT_THAT(told, ::testing::ElementsAre("start 0", "exit 0 138", "start 0", "done", "exit 0 0"));
}

TEST_F(SuperviseTest, AsJsonALineIsAnObjectWithItsTask) {
  SuperviseOptions options;
  options.json = true;
  EXPECT_EQ(supervise_scripts(
                {"echo plain; printf 'gone\\r'; echo '{\"level\":\"info\",\"n\":1}' >&2"}, options)
                .exit_code,
            0);
  EXPECT_EQ(read("out"),
            "{\"task\":\"worker 0\",\"stream\":\"stdout\",\"message\":\"plain\"}\n"
            "{\"task\":\"worker 0\",\"stream\":\"stdout\",\"message\":\"gone\"}\n");
  EXPECT_EQ(read("err"), "{\"task\":\"worker 0\",\"level\":\"info\",\"n\":1}\n");
}

TEST_F(SuperviseTest, FailureStopsTheOthersAndIsTheRootCause) {
  const Outcome outcome = supervise_scripts(
      {"trap 'exit 143' TERM; touch ready; for i in {1..3000}; do sleep 0.01; done",
       "wait_for ready; echo 'E 12:03:45 NonFinite: loss is NaN' >&2; echo '  hint: look' >&2; seq "
       "20 >&2; exit 1"},
      {.survivor_time = milliseconds(50), .grace = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.root_cause, 1u);
  EXPECT_EQ(outcome.tasks[0].status, ExitStatus{.code = 143});
  EXPECT_TRUE(outcome.tasks[0].after_our_signal);
  EXPECT_THAT(read("err"), HasSubstr("worker 0 still running after 0.05 s: sending SIGTERM"));
  EXPECT_THAT(read("err"), HasSubstr("[muster] stopped because worker 1 failed: exit code 1"));
  EXPECT_THAT(read("err"), HasSubstr("[muster] its error: E 12:03:45 NonFinite: loss is NaN\n"
                                     "[muster]   hint: look\n"));
}

// Also where that one ends last; who keeps a record hears of it.
TEST_F(SuperviseTest, WhoFollowsAnotherInTheLogsJsonFormIsNotToBlame) {
  std::optional<std::size_t> told;
  SuperviseOptions options{.survivor_time = seconds(20)};
  options.on_end = [&](const Outcome& outcome) { told = outcome.root_cause; };
  const auto error = [](const std::string& message) {
    return "echo '{\"level\":\"error\",\"message\":\"" + message + "\"}' >&2; ";
  };
  const Outcome outcome = supervise_scripts(
      {error("InvalidArgument: worker 1 failed at step 0: no folder") + "touch ended; exit 2",
       "wait_for ended; " + error("InvalidArgument: no folder\\n  hint: x") + "exit 2"},
      options);
  EXPECT_EQ(outcome.root_cause, 1u);
  EXPECT_EQ(told, 1u);
  EXPECT_THAT(outcome.tasks[1].last_error_lines,
              ::testing::ElementsAre("InvalidArgument: no folder", "  hint: x"));
}

// One mistake in the command, and the words of each task stand above.
TEST_F(SuperviseTest, TasksThatFailAlikeAtOnceNeedOneLine) {
  const auto one_line = [&](const Outcome& outcome) {
    const std::string text = read("err");
    return outcome.exit_code == 2 && text.find("[muster] stopped because") == 0;
  };
  EXPECT_TRUE(one_line(supervise_until(one_line, {"exit 2", "exit 2", "exit 2"}, {})))
      << read("err");
}

TEST_F(SuperviseTest, TasksThatFailUnlikeEachOtherAreAllTold) {
  const Outcome outcome = supervise_scripts({"as gone; exit 138", "wait_for_end gone; exit 2"},
                                            {.survivor_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(read("err"), HasSubstr("[muster] worker 0: exit code 138; waiting up to 20 s for "
                                     "worker 1 to end\n[muster] worker 1: exit code 2\n[muster] "
                                     "stopped because worker 1 failed"));
}

TEST_F(SuperviseTest, AKilledTaskOutranksSurvivorsThatReportItsLoss) {
  const Outcome outcome = supervise_scripts(
      {"wait_for dead; exit 138", "touch dead; kill -9 $$", "wait_for dead; exit 138"},
      {.survivor_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 137);
  EXPECT_EQ(outcome.root_cause, 1u);
  EXPECT_FALSE(outcome.tasks[0].after_our_signal);
  EXPECT_THAT(read("err"), HasSubstr("stopped because worker 1 failed: killed by SIGKILL"));
}

TEST_F(SuperviseTest, ASurvivorThatIsSeenFirstIsNotTheRootCause) {
  const Outcome outcome = supervise_scripts({"touch gone; exit 138", "wait_for gone; exit 2"},
                                            {.survivor_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.root_cause, 1u);
}

TEST_F(SuperviseTest, ATaskStoppedAloneOutranksItsSurvivors) {
  const Outcome outcome = supervise_scripts({"touch gone; exit 138", "wait_for gone; exit 143"},
                                            {.survivor_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(outcome.root_cause, 1u);
}

TEST_F(SuperviseTest, ATaskThatHangsIsTheRootCauseOfThoseThatLostItOrWaited) {
  const std::string lost = "echo 'E 12:03:45 PeerLost: worker 1 was lost' >&2; exit 138";
  const Outcome outcome = supervise_until(
      [&](const Outcome& one) { return one.root_cause == 1u; },
      {"wait_for ready; " + lost,
       "trap 'exit 143' TERM; touch ready; for i in {1..3000}; do sleep 0.01; done",
       "wait_for ready; echo 'E 12:03:45 Timeout: still missing: worker 1' >&2; exit 138"},
      // The other two end one after the other, and neither may be taken for the one that hangs.
      {.survivor_time = seconds(2), .grace = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_EQ(outcome.root_cause, 1u);
  EXPECT_THAT(read("err"), HasSubstr("[muster] stopped because worker 1 hung: it had not ended 2 s "
                                     "after the others"));
}

// As after its connections were cut: it says so itself.
TEST_F(SuperviseTest, TheTaskThatMostOfThemBlameIsTheRootCause) {
  const std::string lost = "echo 'E 12:03:45 PeerLost: worker 1 was lost' >&2; exit 138";
  const Outcome outcome = supervise_scripts(
      {"as gone; " + lost, "wait_for_end gone; " + lost, "wait_for_end gone; " + lost},
      {.survivor_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_EQ(outcome.root_cause, 1u);
}

// As a chief does that was stopped (SIGSTOP) when it had nothing left to do but wait.
TEST_F(SuperviseTest, ATaskThatHangsAndEndsWellWhenToldToIsWhatTheOthersLost) {
  const Outcome outcome = supervise_scripts(
      {"trap 'exit 0' TERM; touch ready; for i in {1..3000}; do sleep 0.01; done",
       "wait_for ready; echo 'E 12:03:45 PeerLost: worker 0 was lost' >&2; exit 138"},
      {.survivor_time = milliseconds(500), .grace = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_EQ(outcome.root_cause, 0u);
}

TEST_F(SuperviseTest, AnEvaluatorIsWaitedForWhenTheOthersAreDone) {
  const Outcome outcome =
      supervise_beside("touch trained", "wait_for trained; sleep 0.3; touch evaluated");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/evaluated"));
}

TEST_F(SuperviseTest, AnEvaluatorThatFailsStopsNobodyAndIsTold) {
  const Outcome outcome =
      supervise_beside("wait_for_end evaluator; touch trained", "as evaluator; exit 1",
                       {.survivor_time = milliseconds(0)});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.root_cause, 1u);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/trained"));
  EXPECT_FALSE(outcome.tasks[0].after_our_signal);
  EXPECT_THAT(read("err"), HasSubstr("evaluator: exit code 1; the run continues with worker 0"));
  EXPECT_THAT(read("err"), HasSubstr("the others ended well, but evaluator failed: exit code 1"));
}

TEST_F(SuperviseTest, AWorkerThatFailsIsBlamedAndAnEvaluatorLeftAloneIsStopped) {
  const std::string waits =
      "trap 'exit 143' TERM; touch ready; for i in {1..3000}; do sleep 0.01; done";
  // A task that asks for a restart would be waited for in vain.
  const Outcome lost = supervise_beside("wait_for ready; rm ready; exit 138", waits,
                                        {.survivor_time = seconds(20), .grace = seconds(20)});
  EXPECT_EQ(lost.exit_code, 138);
  EXPECT_EQ(lost.root_cause, 0u);
  EXPECT_TRUE(lost.tasks[1].after_our_signal);
  EXPECT_THAT(read("err"), HasSubstr("evaluator is the only task left: sending SIGTERM"));
  // Another failure is the end, which an evaluator sees by itself.
  const Outcome failed = supervise_beside(
      "wait_for ready; touch failed; exit 2",
      "touch ready; wait_for failed; sleep 0.3; touch evaluated", {.survivor_time = seconds(20)});
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_EQ(failed.root_cause, 0u);
  EXPECT_FALSE(failed.tasks[1].after_our_signal);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/evaluated"));
  // One that stays is not a task that hung.
  const Outcome late = supervise_beside("wait_for ready; exit 2", waits,
                                        {.survivor_time = milliseconds(50), .grace = seconds(20)});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_EQ(late.root_cause, 0u);
}

TEST_F(SuperviseTest, SigtermReachesEveryTask) {
  const std::string stay = "for i in {1..3000}; do sleep 0.01; done";
  const Outcome outcome = supervise_scripts(
      {"trap 'echo saved; exit 143' TERM; touch ready; " + stay,
       "trap 'echo saved; exit 143' TERM; wait_for ready; kill -TERM $PPID; " + stay},
      {.stop_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(outcome.stop_signal, SIGTERM);
  EXPECT_FALSE(outcome.root_cause.has_value());
  EXPECT_THAT(read("out"), HasSubstr("[worker 0] saved\n"));
  EXPECT_THAT(read("out"), HasSubstr("[worker 1] saved\n"));
}

TEST_F(SuperviseTest, ASignalAfterTheTasksHaveEndedNamesNone) {
  // What the task left behind keeps its output open. It waits until the task has ended ("Z"),
  // and lets the supervisor see it.
  const std::string wait = "while grep -q 'State:.[^Z]' /proc/$$/status; do sleep 0.01; done";
  const Outcome outcome =
      supervise_scripts({"(" + wait + "; sleep 0.2; kill -TERM $PPID; sleep 0.5) & exit 0"}, {});
  EXPECT_EQ(outcome.stop_signal, SIGTERM);
  EXPECT_THAT(read("err"), HasSubstr("SIGTERM: all tasks have ended\n"));
}

TEST_F(SuperviseTest, AProgramInsideAShellHasTheTimeToSaveToo) {
  const std::string program =
      "(trap 'sleep 1.3; echo saved; exit 143' TERM; touch ready; for i in {1..3000}; do "
      "sleep 0.01; done); echo ended";
  const Outcome outcome =
      supervise_scripts({program, "wait_for ready; kill -TERM $PPID"}, {.stop_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(outcome.tasks[0].status, ExitStatus{.signal = SIGTERM});
  EXPECT_EQ(read("out"), "[worker 0] saved\n");
  // It has no more time than a task without a shell.
  std::filesystem::remove(folder_ + "/ready");
  const Outcome late = supervise_scripts(
      {"(trap '' TERM; touch ready; for i in {1..3000}; do sleep 0.01; done); echo ended",
       "wait_for ready; kill -TERM $PPID"},
      {.stop_time = milliseconds(300)});
  EXPECT_EQ(late.exit_code, 143);
  EXPECT_THAT(read("err"), HasSubstr("worker 0 still running after 0.3 s: sending SIGKILL"));
}

// A scheduler's word that the time is nearly over.
TEST_F(SuperviseTest, Sigusr1ReachesEveryTaskAndAsksForARestart) {
  const std::string stay = "for i in {1..3000}; do sleep 0.01; done";
  const Outcome outcome = supervise_scripts(
      {"trap 'echo saved; exit 138' USR1; touch ready; " + stay,
       "trap 'echo saved; exit 138' USR1; wait_for ready; kill -USR1 $PPID; " + stay},
      {.stop_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_EQ(outcome.stop_signal, SIGUSR1);
  EXPECT_FALSE(outcome.root_cause.has_value());
  EXPECT_THAT(read("out"), HasSubstr("[worker 0] saved\n"));
  EXPECT_THAT(read("out"), HasSubstr("[worker 1] saved\n"));
}

// 130 and 143 mean that all was saved.
TEST_F(SuperviseTest, WhoCannotSaveWhenItIsStoppedIsTheRootCause) {
  const std::string stay = "for i in {1..3000}; do sleep 0.01; done";
  const Outcome outcome = supervise_scripts(
      {"trap 'echo \"E 12:00:00 Unavailable: cannot save: No space left\" >&2; exit 138' TERM; "
       "touch ready; " +
           stay,
       "trap 'exit 143' TERM; wait_for ready; kill -TERM $PPID; " + stay},
      {.stop_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_EQ(outcome.root_cause, 0u);
}

TEST_F(SuperviseTest, WhoEndsTooEarlyIsNamedBesideThoseWhoLostIt) {
  const Outcome outcome = supervise_scripts(
      {"wait_for_end gone; echo 'E 12:00:00 PeerLost: worker 1 was lost' >&2; exit 138",
       "as gone; exit 0"});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_THAT(read("err"), HasSubstr("worker 1 had ended before, with exit code 0"));
}

// A task that is told of another task's mistake may be the first to end.
TEST_F(SuperviseTest, WhoRepeatsAnothersErrorIsNotTheCause) {
  const Outcome outcome = supervise_scripts(
      {"wait_for told; echo 'E 12:00:00 InvalidArgument: no such column' >&2; exit 2",
       "echo 'E 12:00:00 InvalidArgument: chief failed at step 3: InvalidArgument: no such column' "
       ">&2; touch told; exit 2"});
  EXPECT_EQ(outcome.root_cause, 0u);
  EXPECT_EQ(outcome.exit_code, 2);
}

TEST_F(SuperviseTest, CtrlCIsForwardedAndTheCodeIs130) {
  const Outcome outcome = supervise_scripts(
      {"trap 'exit 130' INT; kill -INT $PPID; for i in {1..3000}; do sleep 0.01; done"},
      {.stop_time = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.stop_signal, SIGINT);
}

TEST_F(SuperviseTest, SecondCtrlCKillsAtOnce) {
  const Outcome outcome = supervise_scripts(
      {"trap 'touch asked' INT; kill -INT $PPID; wait_for asked; kill -INT $PPID; "
       "for i in {1..3000}; do sleep 0.01; done"},
      {.stop_time = seconds(25)});
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_EQ(outcome.tasks[0].status, ExitStatus{.signal = SIGKILL});
  EXPECT_THAT(read("err"), HasSubstr("Ctrl-C again"));
  EXPECT_THAT(read("err"), Not(HasSubstr("still running")));
}

TEST_F(SuperviseTest, WhoIgnoresSigtermIsKilledAfterTheGrace) {
  const Outcome outcome =
      supervise_scripts({"trap '' TERM; touch ready; for i in {1..3000}; do sleep 0.01; done",
                         "wait_for ready; exit 1"},
                        {.survivor_time = milliseconds(30), .grace = milliseconds(30)});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.tasks[0].status, ExitStatus{.signal = SIGKILL});
  EXPECT_THAT(read("err"), HasSubstr("worker 0 still running after 0.03 s: sending SIGKILL"));
}

// One task ends well; the other is stopped, as by SIGSTOP, and does nothing any more.
TEST_F(SuperviseTest, WhoHangsAfterTheOthersEndedIsNamedAndStopped) {
  const Outcome outcome =
      supervise_scripts({"true", "kill -STOP $$; exit 0"}, {.idle_time = milliseconds(800)});
  EXPECT_THAT(read("err"), HasSubstr("worker 0 ended, and worker 1 did nothing for 0.8 s"));
  EXPECT_TRUE(outcome.exit_code == 138 || outcome.exit_code == 0) << outcome.exit_code;
}

// One that computes, or prints, is left alone. It works for longer than the idle time, and does
// nothing for a fifteenth of it, since a busy machine may give it its turn late.
TEST_F(SuperviseTest, WhoWorksOnAfterTheOthersEndedIsNotStopped) {
  const Outcome outcome = supervise_until([](const Outcome& one) { return one.exit_code == 0; },
                                          {"true", "for i in {1..20}; do sleep 0.1; echo $i; done"},
                                          {.idle_time = milliseconds(1500)});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(read("err"), Not(HasSubstr("did nothing")));
}

// A task that only waits for its child works, also when the child has a session of its own.
TEST_F(SuperviseTest, TheWorkOfChildrenIsWork) {
  std::ofstream(folder_ + "/work") << "while ((SECONDS < 2)); do :; done";  // and says nothing
  for (const char* child : {"bash work; true", "setsid -w bash work; true"}) {
    const Outcome outcome = supervise_until([](const Outcome& one) { return one.exit_code == 0; },
                                            {"true", child}, {.idle_time = milliseconds(700)});
    EXPECT_EQ(outcome.exit_code, 0) << child << "\n" << read("err");
    EXPECT_THAT(read("err"), Not(HasSubstr("did nothing"))) << child;
  }
}

// A child that does nothing is not a sign of life.
TEST_F(SuperviseTest, ChildrenThatOnlySleepAreNoWork) {
  const Outcome outcome =
      supervise_scripts({"true", "sleep 30 & sleep 30; true"}, {.idle_time = milliseconds(700)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_THAT(read("err"), HasSubstr("worker 0 ended, and worker 1 did nothing for 0.7 s"));
}

TEST_F(SuperviseTest, WhoIsStoppedStillEnds) {
  const Outcome outcome =
      supervise_scripts({"touch ready; kill -STOP $$", "wait_for ready; exit 1"},
                        {.survivor_time = milliseconds(30), .grace = seconds(20)});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.tasks[0].ended);
}

TEST_F(SuperviseTest, NothingIsLeftRunning) {
  const Outcome outcome = supervise_scripts({"sleep 1000 & echo $! > left; exit 0"});
  EXPECT_EQ(outcome.exit_code, 0);
  const int pid = std::stoi(read("left"));
  EXPECT_TRUE(gone(pid)) << pid;
}

// As tasks of Muster do, each ten seconds, when one of them has ended too early.
TEST_F(SuperviseTest, WhoOnlySaysThatItWaitsDoesNothing) {
  const Outcome outcome = supervise_scripts(
      {"exit 0",
       "mkfifo pipe; exec 3<>pipe\n"
       "for i in {1..300}; do read -t 0.1 -u 3; echo 'I 12:00:00 waiting for worker 0'; done"},
      {.idle_time = milliseconds(500)});
  EXPECT_EQ(outcome.exit_code, 138);
  EXPECT_TRUE(outcome.tasks[1].stuck);
  EXPECT_THAT(read("err"), HasSubstr("worker 0 ended, and worker 1 did nothing for 0.5 s"));
}

TEST_F(SuperviseTest, TasksDieWithUs) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    supervise_scripts({"echo $$ > task; exec sleep 1000"});
    _exit(0);
  }
  for (int i = 0; i < 3000 && read("task").find('\n') == std::string::npos; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  const int task = std::stoi(read("task"));
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(gone(task)) << task;
}

TEST_F(SuperviseTest, AProgramThatCannotRunStopsWhatWasStarted) {
  std::vector<ProcessSpec> processes = {
      {.name = "worker 0",
       .argv = {"/bin/sh", "-c", "echo $$ > " + folder_ + "/task; exec sleep 1000"}},
      {.name = "worker 1", .argv = {folder_ + "/no_such_program"}}};
  try {
    supervise(processes, {.out_fd = out_, .err_fd = err_});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("no_such_program' for worker 1"));
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left";
}

TEST_F(SuperviseTest, TasksArePinnedAndGetTheirEnvironment) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  int core = 0;
  while (!CPU_ISSET(core, &mine)) ++core;
  setenv("MUSTER_TEST_GONE", "here", 1);
  const Outcome outcome = supervise({{.name = "chief 0",
                                      .argv = {"/bin/sh", "-c",
                                               "echo \"$COLOUR-$MUSTER_TEST_GONE-\"; "
                                               "grep Cpus_allowed_list /proc/self/status"},
                                      .environment = {{"COLOUR", "blue"}},
                                      .without = {"MUSTER_TEST_GONE"},
                                      .cores = {core}}},
                                    {.out_fd = out_, .err_fd = err_});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(read("out"),
            "[chief 0] blue--\n[chief 0] Cpus_allowed_list:\t" + std::to_string(core) + "\n");
}

TEST_F(SuperviseTest, AReaderThatLeftDoesNotEndTheRun) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const Outcome outcome =
      supervise({{.name = "worker 0",
                  .argv = {"/bin/sh", "-c", "echo a; echo b; touch " + folder_ + "/end"}}},
                {.out_fd = ends[1], .err_fd = err_});
  close(ends[1]);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/end"));
}

}  // namespace
}  // namespace muster::inline v0_1::launch
