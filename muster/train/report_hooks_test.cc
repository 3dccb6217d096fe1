#include "muster/train/report_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/event.h"
#include "muster/train/progress_line.h"
#include "muster/train/step_timer.h"
#include "muster/train/step_trace.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepTraceTest, ReportsEveryPartAndTheTotal) {
  StepTrace trace;
  trace.start();
  trace.lap(StepTrace::kInput);
  trace.lap(distribute::StepTimes{.backward = Seconds(0.25), .reduction = Seconds(0.5)});
  trace.count_step();
  const std::string report = trace.report();
  EXPECT_THAT(report, HasSubstr("(1 steps)"));
  for (const char* part : {"input", "forward", "backward      250.000", "reduction     500.000",
                           "update", "hooks", "saving", "evaluating", "total"})
    EXPECT_THAT(report, HasSubstr(part));
  EXPECT_THAT(StepTrace().report(), Not(HasSubstr("nan")));
}

std::string stderr_of(const std::function<void()>& fn) {
  log::flush();
  ::testing::internal::CaptureStderr();
  fn();
  log::flush();
  return ::testing::internal::GetCapturedStderr();
}

TEST(ProgressHookTest, SpeaksInLinesWithRatesAndTimeLeft) {
  ManualClock clock;
  ProgressHook hook({.every_steps = 10}, clock);
  const std::string text = stderr_of([&] {
    hook.begin({.start_step = 0, .last_step = 40});
    for (int64_t step = 1; step <= 20; ++step) {
      clock.advance(from_seconds(0.5));
      hook.after_step({.global_step = step, .loss = 1.0 / static_cast<double>(step), .rows = 32});
    }
    hook.after_save(20, "m/model.ckpt-20");
    clock.advance(from_seconds(100));
    hook.after_pause(Seconds(100));
    for (int64_t step = 21; step <= 31; ++step) {
      clock.advance(from_seconds(0.5));
      hook.after_step({.global_step = step, .loss = 1.0 / static_cast<double>(step), .rows = 32});
    }
    hook.end(31);
  });
  EXPECT_THAT(text, HasSubstr("step 1/40 (2%)  loss 1.0000\n"));
  EXPECT_THAT(text,
              HasSubstr("step 11/40 (27%)  loss 0.0909  64 examples/s  2.0 steps/s  0:15 left"));
  EXPECT_THAT(text,
              HasSubstr("step 31/40 (77%)  loss 0.0323  64 examples/s  2.0 steps/s  0:05 left"));
  EXPECT_THAT(text, HasSubstr("saved m/model.ckpt-20\n"));
  EXPECT_THAT(text,  // the time of a save and an evaluation does not count
              HasSubstr("step 21/40 (52%)  loss 0.0476  64 examples/s  2.0 steps/s  0:10 left"));
  EXPECT_THAT(text, HasSubstr("training is over at step 31: loss of the last step 0.0323"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

// The following code runs in a process of its own: whether a status is shown is decided once.
void show_ten_steps() {
  setenv("MUSTER_PROGRESS", "bar", 1);
  setenv("COLUMNS", "90", 1);
  setenv("LC_ALL", "C", 1);
  ManualClock clock;
  ProgressHook hook({.every_steps = 5, .live = true, .refresh_seconds = 1}, clock);
  hook.begin({.start_step = 50, .last_step = 100});
  const std::map<std::string, double> metrics{{"accuracy", 0.75}};
  for (int64_t step = 51; step <= 60; ++step) {
    clock.advance(from_seconds(0.5));
    hook.after_step({.global_step = step,
                     .loss = 2,
                     .rows = 1,
                     .metrics = step == 51 ? std::optional(metrics) : std::nullopt});
  }
  hook.end(60);
  std::exit(0);
}

TEST(ProgressHookDeathTest, KeepsALineUpToDateWhereItIsSeen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The first line stays, and one every five steps; between them the bar is kept up to date.
  EXPECT_EXIT(show_ten_steps(), ::testing::ExitedWithCode(0),
              "step 51/100 \\(51%\\)  loss 2.0000  accuracy 0.7500\n"
              "step 53/100 #+-+ 53%  loss 2.0000  accuracy 0.7500  2 examples/s  0:24 left\r"
              "step 55/100 #+-+ 55%  loss 2.0000  accuracy 0.7500  2 examples/s  0:23 left\r"
              " *\rI [0-9:]+ step 56/100 \\(56%\\)  loss 2.0000  accuracy 0.7500  2 examples/s  "
              "2.0 steps/s  0:22 left\n"
              "(step [^\r]*\r)+ \rI [0-9:]+ training is over at step 60: loss of the last step "
              "2.0000\n$");
}

void wait_for_others() {
  setenv("MUSTER_PROGRESS", "bar", 1);
  ManualClock clock;
  WorkerStatusHook hook(clock, /*live=*/true, 1);
  hook.begin({});
  for (int64_t step = 1; step <= 4; ++step) {
    clock.advance(from_seconds(0.25));
    hook.after_step({.global_step = step, .reduction_time = Seconds(0.1)});
  }
  hook.end(4);
  std::exit(0);
}

TEST(WorkerStatusHookDeathTest, TellsWhoWaits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(wait_for_others(), ::testing::ExitedWithCode(0),
              "^step 4  250.00 ms a step, 40% in reduction\r \rI [0-9:]+ training is over at step "
              "4: this worker is done\n$");
}

TEST(WorkerStatusHookTest, SaysWithoutATerminalThatItIsDone) {
  ManualClock clock;
  WorkerStatusHook hook(clock, /*live=*/false);
  const std::string text = stderr_of([&] {
    hook.begin({});
    clock.advance(from_seconds(1));
    hook.after_step({.global_step = 1});
    hook.end(1);
  });
  EXPECT_THAT(text, ::testing::EndsWith("training is over at step 1: this worker is done\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(StepTimerTest, IsDueAtTheFirstStepAndThenEveryNAsInTfEstimator) {
  const auto due = [](int64_t every, int64_t first, int64_t last) {
    StepTimer timer(every);
    std::vector<int64_t> steps;
    for (int64_t step = first; step <= last; ++step) {
      if (timer.due(step)) steps.push_back(step);
    }
    return steps;
  };
  EXPECT_THAT(due(100, 1, 350), ElementsAre(1, 101, 201, 301));
  EXPECT_THAT(due(100, 51, 260), ElementsAre(51, 151, 251));
  EXPECT_THAT(due(0, 1, 10), ElementsAre());
}

TEST(ProgressLineTest, SmallNumbersKeepTheirDigits) {
  EXPECT_EQ(value_text(0.0001), "0.0001");
  EXPECT_EQ(value_text(0.00012345), "0.000123");
  EXPECT_EQ(value_text(1e-5), "1e-05");
  EXPECT_EQ(value_text(-0.0005), "-0.0005");
  EXPECT_EQ(value_text(0), "0.0000");
  EXPECT_EQ(value_text(0.001), "0.0010");
  EXPECT_EQ(value_text(2.5), "2.5000");
  EXPECT_EQ(progress_line({.step = 1, .loss = 2, .metrics = {{"learning_rate", 0.0001}}}),
            "step 1  loss 2.0000  learning_rate 0.0001");
}

TEST(ProgressBarTest, FitsTheTerminal) {
  const ProgressFacts facts{.step = 250,
                            .last_step = 1000,
                            .loss = 0.5,
                            .metrics = {{"accuracy", 0.91}},
                            .examples_per_second = 6400,
                            .steps_per_second = 100};
  EXPECT_EQ(progress_line(facts),
            "step 250/1000 (25%)  loss 0.5000  accuracy 0.9100  6400 examples/s  100.0 steps/s  "
            "0:08 left");
  EXPECT_EQ(progress_bar(facts, 200, false),
            "step 250/1000 #######----------------------- 25%  loss 0.5000  accuracy 0.9100  6400 "
            "examples/s  0:08 left");
  EXPECT_EQ(progress_bar(facts, 60, true),
            "step 250/1000 ━━━━╸───────────── 25%  loss 0.5000  0:08 left");
  EXPECT_EQ(progress_bar({.step = 7, .loss = 1}, 60, false), "step 7  loss 1.0000");
  EXPECT_EQ(progress_bar(facts, 10, false), "step 250/1000 25%  0:08 left");  // cut by log::status
}

// On servers the numbers of a chief's own steps jump, and a step that was not due before it was
// made may have a number by then at which one would be.
TEST(SummaryHookTest, WritesLossAndRatesByStep) {
  TempDirectory directory;
  ManualClock clock;
  {
    SummaryHook hook(
        std::make_shared<summary::EventWriter>(directory.path(), local_file_system(), clock), 3, 4,
        clock);
    hook.begin({.start_step = 10});
    for (int64_t step = 11; step <= 19; ++step) {
      clock.advance(from_seconds(0.25));
      const std::vector<formats::SummaryValue> none;
      const bool due = step == 11 || step == 15 || step == 18;
      hook.after_step({.global_step = step,
                       .loss = static_cast<double>(step),
                       .rows = 2,
                       .summaries = due ? &none : nullptr});
    }
    hook.after_save(19, "model.ckpt-19");
    hook.end(19);
  }
  const auto files = formats::list_event_files(local_file_system(), directory.path()).value();
  ASSERT_EQ(files.size(), 1u);
  std::map<std::string, std::vector<std::pair<int64_t, float>>> seen;
  std::vector<std::pair<formats::SessionStatus, int64_t>> sessions;
  for (const auto& event : formats::read_events(local_file_system(), files[0]).value().events) {
    if (event.session_log) sessions.emplace_back(event.session_log->status, event.step);
    for (const auto& value : event.values)
      seen[value.tag].emplace_back(event.step, std::get<float>(value.value));
  }
  using Points = std::vector<std::pair<int64_t, float>>;
  EXPECT_EQ(seen["loss"], (Points{{11, 11}, {15, 15}, {18, 18}}));
  EXPECT_EQ(seen["global_step/sec"], (Points{{15, 4}, {19, 4}}));
  EXPECT_EQ(seen["examples/sec"], (Points{{15, 8}, {19, 8}}));
  // A reader drops an earlier run's events for this step and later ones.
  EXPECT_THAT(sessions, ElementsAre(std::pair{formats::SessionStatus::kStart, int64_t{11}},
                                    std::pair{formats::SessionStatus::kCheckpoint, int64_t{19}}));
}

// --- stopping ------------------------------------------------------------------------------------

TEST(StopSignalTest, RemembersTheSignalUntilCleared) {
  install_stop_handlers();
  EXPECT_EQ(stop_signal(), 0);
  std::raise(SIGTERM);
  EXPECT_EQ(stop_signal(), SIGTERM);
  clear_stop_signal();
  EXPECT_EQ(stop_signal(), 0);
}

TEST(StopSignalTest, AHangUpIsARequestToStopUnlessItIsIgnored) {
  std::signal(SIGHUP, SIG_DFL);
  install_stop_handlers();
  std::raise(SIGHUP);
  EXPECT_EQ(stop_signal(), SIGTERM) << "it saves and ends as that does";
  EXPECT_STREQ(stop_signal_name(), "SIGHUP");
  clear_stop_signal();
  std::signal(SIGHUP, SIG_IGN);  // as nohup does
  install_stop_handlers();
  std::raise(SIGHUP);
  EXPECT_EQ(stop_signal(), 0);
  std::signal(SIGHUP, SIG_DFL);
}

TEST(StopSignalDeathTest, ASecondCtrlCEndsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        install_stop_handlers();
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace muster::inline v0_1
