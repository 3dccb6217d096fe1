#include "muster/train/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/manager.h"
#include "muster/formats/event.h"
#include "muster/train/step_timer.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string logged(const std::function<void()>& fn) {
  log::flush();
  ::testing::internal::CaptureStderr();
  fn();
  log::flush();
  return ::testing::internal::GetCapturedStderr();
}

TEST(StepTimerTest, StepsThatWereRolledBackAreDueAgain) {
  StepTimer timer(3);
  std::vector<int64_t> due;
  for (const int64_t step : {1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6, 7, 8}) {
    if (timer.due(step)) due.push_back(step);
  }
  EXPECT_EQ(due, (std::vector<int64_t>{1, 4, 4, 7, 4, 7}));
}

TEST(SecondOrStepTimerTest, IsDueAtFirstAndThenEverySoOften) {
  ManualClock clock;
  SecondOrStepTimer steps({.steps = 3}, "test", clock);
  std::vector<int64_t> due;
  for (int64_t step = 5; step <= 12; ++step) {
    if (steps.due(step)) due.push_back(step);
    EXPECT_FALSE(steps.due(step));  // once is enough
  }
  EXPECT_THAT(due, ElementsAre(5, 8, 11));
  EXPECT_FALSE(steps.due(7));  // back again, from where it counts
  EXPECT_TRUE(steps.due(10));
  steps.reset();
  EXPECT_TRUE(steps.due(1));

  SecondOrStepTimer seconds({.time = Seconds(2.5)}, "test", clock);
  EXPECT_TRUE(seconds.due(1));
  clock.advance(from_seconds(2.4));
  EXPECT_FALSE(seconds.due(2));
  clock.advance(from_seconds(0.1));
  EXPECT_TRUE(seconds.due(3));
}

TEST(SecondOrStepTimerTest, WantsOneOfTheTwo) {
  const auto said = [](Every every) {
    return message_of([&] { SecondOrStepTimer(every, "hooks::x", system_clock()); });
  };
  EXPECT_EQ(said({.steps = 3, .time = Seconds(2)}),
            "hooks::x got both every.steps (3) and every.time (2 s)");
  EXPECT_EQ(said({}), "hooks::x got neither every.steps nor every.time");
  EXPECT_EQ(said({.steps = 0}), "hooks::x got every.steps = 0; it must be 1 or more");
  EXPECT_EQ(said({.time = Seconds(0)}), "hooks::x got every.time = 0 s; it must be more than 0");
}

TEST(StopAtStepTest, CountsFromTheStartOrEndsAtAStep) {
  const auto made = [](const hooks::StopAtStepOptions& options, int64_t start) {
    const RunControl control;
    const auto hook = hooks::stop_at_step(options);
    hook->begin({.start_step = start, .control = control});
    int64_t step = start;
    while (!control.stop_requested() && step < 100) hook->before_step(++step);
    return step;
  };
  EXPECT_EQ(made({.num_steps = 3}, 7), 10);
  EXPECT_EQ(made({.last_step = 9}, 7), 9);
  EXPECT_EQ(made({.last_step = 9}, 12), 12);  // there already: none
  EXPECT_THAT(message_of([] { hooks::stop_at_step({}); }), HasSubstr("got neither of num_steps"));
  EXPECT_THAT(message_of([] { hooks::stop_at_step({.num_steps = 1, .last_step = 1}); }),
              HasSubstr("got both of num_steps and last_step"));
  EXPECT_THAT(message_of([] { hooks::stop_at_step({.last_step = 0}); }),
              HasSubstr("last_step is 0; it must be 1 or more"));
  const RunControl control;
  EXPECT_THAT(
      message_of([&] {
        hooks::stop_at_step({.last_step = 3})->begin({.mode = Mode::kEval, .control = control});
      }),
      HasSubstr("ends training"));
}

TEST(StopAtCheckpointStepTest, WaitsForACheckpoint) {
  const RunControl control;
  const auto hook = hooks::stop_at_checkpoint_step(15);
  hook->begin({.control = control});
  hook->before_save(10);
  EXPECT_FALSE(control.stop_requested());
  hook->before_save(20);
  EXPECT_TRUE(control.stop_requested());
  EXPECT_THAT(message_of([] { hooks::stop_at_checkpoint_step(0); }), HasSubstr("1 or more"));
}

TEST(LoggingTensorTest, TellsNamedValuesAndTheTimeBetween) {
  ManualClock clock;
  const auto hook = hooks::logging_tensor(
      {.names = {"accuracy", "loss"}, .every = {.steps = 2}, .clock = &clock});
  const std::map<std::string, double> metrics{{"accuracy", 0.75}, {"other", 1}};
  const std::string text = logged([&] {
    hook->begin({});
    for (int64_t step = 1; step <= 4; ++step) {
      hook->after_step({.global_step = step,
                        .loss = 1.0 / static_cast<double>(step),
                        .metrics = step == 1 ? std::optional(metrics) : std::nullopt});
      clock.advance(from_seconds(0.5));
    }
    hook->end(4);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("accuracy = 0.7500, loss = 1.0000\n"),
                          HasSubstr("accuracy = 0.7500, loss = 0.3333 (1.000 s)\n"),
                          Not(HasSubstr("other")), Not(HasSubstr("0.2500"))));
}

TEST(LoggingTensorTest, MayTellAtTheEndAloneAndInWordsOfOnesOwn) {
  const auto hook = hooks::logging_tensor(
      {.at_end = true, .formatter = [](const std::map<std::string, double>& values) {
         return "seen " + std::to_string(static_cast<int>(values.at("global_step")));
       }});
  const std::string text = logged([&] {
    hook->begin({});
    hook->after_step({.global_step = 8, .loss = 1});
    hook->after_step({.global_step = 9, .loss = 1});
    hook->end(9);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("seen 9\n"), Not(HasSubstr("seen 8"))));
}

TEST(LoggingTensorTest, ANameThatIsNotThereIsToldWithThoseThatAre) {
  const auto hook = hooks::logging_tensor({.names = {"acuracy"}});
  const std::map<std::string, double> metrics{{"accuracy", 0.75}};
  hook->begin({});
  const Error error =
      error_of([&] { hook->after_step({.global_step = 1, .loss = 1, .metrics = metrics}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("no value 'acuracy'"));
  EXPECT_THAT(error.message(), HasSubstr("'accuracy', 'global_step', 'loss'"));
}

TEST(StepCounterTest, CountsStepsOfTrainingTime) {
  TempDirectory directory;
  ManualClock clock;
  const auto hook = hooks::step_counter(
      {.every = {.steps = 10}, .output_dir = directory / "rate", .clock = &clock});
  const std::string text = logged([&] {
    hook->begin({});
    for (int64_t step = 1; step <= 21; ++step) {
      hook->after_step({.global_step = step});
      clock.advance(from_seconds(0.25));
      if (step != 15) continue;
      clock.advance(from_seconds(100));
      hook->after_pause(Seconds(100));
    }
    hook->end(21);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("step 11: global_step/sec = 4\n"),
                          HasSubstr("step 21: global_step/sec = 4\n")));
  FileSystem& files = local_file_system();
  const auto paths = formats::list_event_files(files, directory / "rate").value();
  ASSERT_EQ(paths.size(), 1u);
  std::vector<int64_t> steps;
  for (const auto& event : formats::read_events(files, paths[0]).value().events) {
    for (const auto& value : event.values) {
      EXPECT_EQ(value.tag, "global_step/sec");
      EXPECT_EQ(std::get<float>(value.value), 4);
      steps.push_back(event.step);
    }
  }
  EXPECT_THAT(steps, ElementsAre(11, 21));
}

TEST(FinalOpsTest, ComeAtACleanEnd) {
  int64_t last = -1;
  const auto hook = hooks::final_ops([&](int64_t step) { last = step; });
  hook->begin({});
  hook->on_error(internal_error("broke"));
  EXPECT_EQ(last, -1);
  hook->end(7);
  EXPECT_EQ(last, 7);
  EXPECT_EQ(error_of([] { hooks::final_ops(nullptr); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(GlobalStepWaiterTest, WaitsForAnotherRunAndNotForEver) {
  TempDirectory directory;
  CheckpointManager manager(directory / "m");
  manager.ensure_writable();
  ManualClock clock({.sleep_advances = true});
  const auto hook = hooks::global_step_waiter(
      {.model_dir = directory / "m", .wait_until_step = 5, .timeout = Seconds(3), .clock = &clock});
  const Error error = error_of([&] { hook->begin({}); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("waiting for step 5 in " + directory / "m" + " took 3 s"));
  manager.save({.global_step = 5});
  hook->begin({});
  EXPECT_EQ(message_of([] { hooks::global_step_waiter({}); }),
            "hooks::global_step_waiter got an empty model_dir");
  EXPECT_THAT(message_of([] {
                hooks::global_step_waiter({.model_dir = "m", .poll_interval = Seconds(0)});
              }),
              HasSubstr("got poll_interval = 0 s; it must be more than 0"));
}

}  // namespace
}  // namespace muster::inline v0_1
