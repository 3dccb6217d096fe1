#include "apps/muster/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "apps/muster/run_muster.h"
#include "muster/base/clock.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/summary/testing/live_tasks.h"

namespace muster::app {
namespace {

using plan::Activity;
using summary::LiveRun;
using summary::LiveStatus;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

LiveStatus task_at(int64_t process, float input, double written) {
  LiveStatus status = summary::live_task(process, 2, input, written);
  status.started = written - 60;
  status.last_step = 100;
  status.memory = 3 << 20;
  status.log = {{.time = written, .level = "warning", .text = "a line \x1b[2J"}};
  return status;
}

LiveRun run_at(double now) {
  LiveStatus chief = task_at(0, .02F, now);
  chief.saving = 8;
  chief.collective = "all_reduce #4";
  chief.collective_seconds = 2;
  chief.replicas[0].activity = Activity::kCommunication;
  chief.replicas[0].bucket = 2;
  chief.replicas[0].buckets = 3;
  return summary::live_run({chief, task_at(1, .1F, now)}, now);
}

TEST(Top, ARowForEachTaskAndTheSlowOne) {
  const std::string text = join(top_lines(run_at(1000), {.columns = 200}), "\n");
  EXPECT_THAT(text, StartsWith("step 10 of 100, 10 steps/s, 9.00 s left; running for 1 min 00 s\n"
                               "worker 1 takes 5.0 times as long as the others: input is 100.0 ms "
                               "a step, and 20.0 ms in the others\n"));
  EXPECT_THAT(text, HasSubstr("worker 0 writes the checkpoint of step 8\n"));
  EXPECT_THAT(text, HasSubstr("worker 0 waits in all_reduce #4 for 2.00 s\n"));
  EXPECT_THAT(text, HasSubstr("communication, bucket 2 of 3 for 0.50 s"));
  EXPECT_THAT(text, HasSubstr(" iiii~~~~~~~~~~~~~~~~\n"));
  EXPECT_THAT(text, HasSubstr(" iiiiiiiiiiiiiiiiiiii\n"));
  EXPECT_THAT(text, Not(HasSubstr("a line")));  // logs are for a screen
}

TEST(Top, ServersEvaluatorsEpochsAndGpus) {
  LiveStatus chief = task_at(0, .02F, 1000), server = task_at(-1, .1F, 1000),
             evaluator = task_at(-1, .1F, 1000);
  chief.device_memory = int64_t{3} << 30;
  chief.replicas[0].epoch = 2;
  server.task = server.replicas[0].task = "ps 0";
  server.replicas[0].activity = Activity::kServing;
  server.replicas[0].last.clear();
  server.measures = {{"connections", 6}, {"updates/s", 31}};
  evaluator.task = evaluator.replicas[0].task = "evaluator";
  for (plan::StepSeconds& batch : evaluator.replicas[0].last) batch.step = 5;
  const LiveRun run = summary::live_run({chief, server, evaluator}, 1000);
  const std::string text = join(top_lines(run, {.columns = 200}), "\n");
  EXPECT_THAT(text, StartsWith("step 10 of 100, 10 steps/s, 9.00 s left"));
  EXPECT_THAT(text, HasSubstr("ps 0: connections 6, updates/s 31\n"));
  EXPECT_THAT(text, HasSubstr("serving for 0.50 s"));
  EXPECT_THAT(text, HasSubstr("10 batches"));
  EXPECT_THAT(text, HasSubstr("3.0 GiB"));
  EXPECT_THAT(text, HasSubstr("epoch"));
  EXPECT_THAT(plain_lines(run).back(), StartsWith("evaluator: running, step 10, 10 batches/s"));
}

// A quarter of the whole run was evaluation, which no step shows.
TEST(Top, TheWholeRunIsNextToTheLastSteps) {
  LiveStatus worker = task_at(0, .02F, 1000);
  worker.earlier_starts = 2;
  const auto set = [&](Activity activity, float seconds) {
    worker.replicas[0].whole.seconds[static_cast<size_t>(activity)] = seconds;
  };
  set(Activity::kCompute, 300);
  set(Activity::kEvaluating, 100);
  const LiveRun run = summary::live_run({worker}, 1000);
  const std::string text = join(top_lines(run, {.columns = 250}), "\n");
  EXPECT_THAT(text, HasSubstr(" iiii~~~~~~~~~~~~~~~~  ccccccccccccccceeeee\n"));
  EXPECT_THAT(text, HasSubstr("worker 0 was started again: its whole run has 2 earlier starts\n"));
  EXPECT_THAT(join(top_lines(run, {.columns = 250, .color = true}), "\n"),
              HasSubstr("\033[33miiii\033[m\033[34m~~~~~~~~~~~~~~~~\033[m  "
                        "\033[32mccccccccccccccc\033[m\033[36meeeee\033[m\n"));
}

TEST(Top, KeepsToTheTerminalsSize) {
  for (const int columns : {20, 60, 133}) {
    for (const int rows : {5, 12, 40}) {
      const auto lines = top_lines(run_at(1000), {.columns = columns, .rows = rows});
      EXPECT_LE(lines.size(), static_cast<size_t>(std::max(rows, 6)));
      for (const std::string& line : lines) EXPECT_LE(line.size(), static_cast<size_t>(columns));
    }
  }
  const auto lines = top_lines(run_at(1000), {.columns = 100, .rows = 40});
  EXPECT_THAT(lines.back(), AllOf(StartsWith("W "), HasSubstr("worker 1: a line \\x1b[2J")));
  // A task's text never moves the cursor.
  EXPECT_THAT(lines, Each(Not(HasSubstr("\x1b"))));
}

TEST(Top, ColorsAreOfTheBarAndTheSlowOneAlone) {
  const std::string text = join(top_lines(run_at(1000), {.columns = 200, .color = true}), "\n");
  EXPECT_THAT(text, HasSubstr("\033[33miiii\033[m\033[34m~~~~~~~~~~~~~~~~\033[m\n"));
  EXPECT_THAT(text, HasSubstr("\033[31mworker 1 takes"));
}

TEST(Top, LinesForALog) {
  EXPECT_THAT(
      plain_lines(run_at(1000)),
      ElementsAre("worker 0: running, step 10, 10 steps/s, communication, bucket 2 of 3 for "
                  "0.50 s",
                  "worker 1: running, step 10, 10 steps/s, input for 0.50 s",
                  HasSubstr("worker 1 takes 5.0 times as long")));
  LiveStatus failed = task_at(1, .1F, 900);
  failed.end = "failed";
  failed.error = "worker 0 was lost";
  failed.exit_code = 138;
  const LiveRun run = summary::live_run({task_at(0, .1F, 900), failed}, 1000);
  EXPECT_THAT(plain_lines(run), ElementsAre("worker 0: silent for 1 min 40 s, step 10, 10 steps/s",
                                            "worker 1: failed, code 138, step 10, 10 steps/s"));
  EXPECT_FALSE(all_ended(run));
  EXPECT_THAT(join(top_lines(run, {.columns = 200}), "\n"),
              HasSubstr("worker 1 failed: worker 0 was lost"));
  EXPECT_TRUE(all_ended(summary::live_run({failed}, 1000)));
  EXPECT_FALSE(all_ended({}));
}

TEST(TopCommand, ShowsFilesOnceOrUntilTheEnd) {
  const TempDirectory dir;
  const ShellOutput none = run_muster("top --once " + dir.path());
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.text, HasSubstr("no task of a run has told what it does in " + dir.path()));
  const double now = system_clock().wall_seconds();
  for (int64_t process = 0; process < 2; ++process) {
    LiveStatus status = task_at(process, process == 0 ? .02F : .1F, now);
    status.every = 3600;
    ASSERT_TRUE(summary::write_live_status(file_systems(), dir.path(), status).ok());
  }
  const ShellOutput once = run_muster("top --once " + dir.path());
  EXPECT_EQ(once.code, 0) << once.text;
  EXPECT_THAT(once.text, HasSubstr("worker 1 takes 5.0 times as long as the others: input is"));
  EXPECT_THAT(once.text, Not(HasSubstr("\x1b")));
  for (int64_t process = 0; process < 2; ++process) {
    LiveStatus status = task_at(process, .02F, now);
    status.end = "ended";
    ASSERT_TRUE(summary::write_live_status(file_systems(), dir.path(), status).ok());
  }
  const ShellOutput ended = run_muster("top --interval=0.1 " + dir.path());
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.text,
            "worker 0: ended, step 10, 10 steps/s\nworker 1: ended, step 10, 10 steps/s\n");
}

}  // namespace
}  // namespace muster::app
