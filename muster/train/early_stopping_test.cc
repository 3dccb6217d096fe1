#include "muster/train/early_stopping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/files/testing/memory_store.h"
#include "muster/formats/event.h"
#include "muster/summary/event_writer.h"
#include "muster/train/evaluation_history.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Curve = std::vector<std::pair<int64_t, double>>;

void write_evaluations(const std::string& eval_dir, const std::string& metric, const Curve& curve,
                       FileSystem& files = local_file_system()) {
  summary::EventWriter writer(eval_dir, files, system_clock());
  for (const auto& [step, value] : curve) writer.add_scalars({{metric, value}}, step);
  writer.close();
}

// The step at which a run with the hook ends, that evaluates so; -1 when it does not.
int64_t stopped_at(const std::shared_ptr<Hook>& hook, const Curve& curve) {
  TempDirectory directory;
  const RunControl control;
  hook->begin({.model_dir = directory.path(), .control = control});
  for (const auto& [step, value] : curve) {
    hook->after_evaluate(step, "", {{"m", value}, {"global_step", static_cast<double>(step)}});
    if (control.stop_requested()) return step;
  }
  return -1;
}

TEST(EarlyStoppingTest, AThresholdIsStrict) {
  const Curve curve{{10, 0.5}, {20, 0.9}, {30, 0.95}};
  EXPECT_EQ(stopped_at(hooks::stop_if_higher("m", 0.9), curve), 30);  // 0.9 is not above 0.9
  EXPECT_EQ(stopped_at(hooks::stop_if_higher("m", 0.95), curve), -1);
  EXPECT_EQ(stopped_at(hooks::stop_if_lower("m", 0.5), curve), -1);
  EXPECT_EQ(stopped_at(hooks::stop_if_lower("m", 0.6), curve), 10);
  EXPECT_EQ(stopped_at(hooks::stop_if_lower("m", 0.6, {.min_steps = 11}), curve), -1);
}

TEST(EarlyStoppingTest, TheBestMayNotGetTooOld) {
  const Curve rises{{0, 1}, {10, 2}, {20, 2}, {30, 1.5}, {40, 3}, {50, 0}};
  EXPECT_EQ(stopped_at(hooks::stop_if_no_increase("m", 20), rises), 30);
  EXPECT_EQ(stopped_at(hooks::stop_if_no_increase("m", 21), rises), -1);
  EXPECT_EQ(stopped_at(hooks::stop_if_no_increase("m", 10, {.min_steps = 30}), rises), 50);
  const Curve falls{{0, 3}, {10, 2}, {20, 2}, {30, 2.5}, {40, 1}};
  EXPECT_EQ(stopped_at(hooks::stop_if_no_decrease("m", 20), falls), 30);
  EXPECT_EQ(stopped_at(hooks::stop_if_no_decrease("m", 30), falls), -1);
}

TEST(EarlyStoppingTest, EvaluationsOfAnotherNameDoNotCount) {
  TempDirectory directory;
  const RunControl control;
  const auto hook = hooks::stop_if_higher("m", 1, {.eval_dir = directory / "eval_test"});
  hook->begin({.model_dir = directory.path(), .control = control});
  hook->after_evaluate(5, "", {{"m", 2}});
  EXPECT_FALSE(control.stop_requested());
  hook->after_evaluate(5, "test", {{"m", 2}});
  EXPECT_TRUE(control.stop_requested());
}

TEST(EarlyStoppingTest, ARestartDecidesFromTheEventsUpToItsStep) {
  TempDirectory directory;
  write_evaluations(directory / "eval", "m", {{10, 1}, {20, 2}, {30, 3}});
  const auto stops = [&](int64_t start_step, int64_t limit, bool is_chief) {
    const RunControl control;
    hooks::stop_if_no_decrease("m", limit)
        ->begin({.start_step = start_step,
                 .is_chief = is_chief,
                 .model_dir = directory.path(),
                 .control = control});
    return control.stop_requested();
  };
  EXPECT_TRUE(stops(30, 20, true));
  EXPECT_FALSE(stops(30, 25, true));   // more patience now
  EXPECT_FALSE(stops(20, 20, true));   // step 30 was lost
  EXPECT_FALSE(stops(30, 20, false));  // the chief decides
}

TEST(EarlyStoppingTest, EventsOfAnotherTaskAreRead) {
  TempDirectory directory;
  ManualClock clock;
  const RunControl control;
  const auto hook = hooks::stop_if_higher("m", 1, {.every = {.time = Seconds(5)}, .clock = &clock});
  hook->begin({.model_dir = directory.path(), .control = control});
  hook->after_step({.global_step = 1});
  write_evaluations(directory / "eval", "m", {{1, 2}});
  clock.advance(from_seconds(4));
  hook->after_step({.global_step = 2});
  EXPECT_FALSE(control.stop_requested());
  clock.advance(from_seconds(1));
  hook->after_step({.global_step = 3});
  EXPECT_TRUE(control.stop_requested());
}

TEST(EarlyStoppingTest, AMetricThatIsNotThereIsNamed) {
  TempDirectory directory;
  const RunControl control;
  const auto hook = hooks::stop_if_higher("acuracy", 1);
  hook->begin({.model_dir = directory.path(), .control = control});
  const Error error = error_of([&] { hook->after_evaluate(5, "", {{"accuracy", 2}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("no metric 'acuracy'; "));
  EXPECT_THAT(error.message(), HasSubstr("'accuracy'"));
}

TEST(EarlyStoppingTest, AFunctionOfOnesOwnIsAskedOnTheChief) {
  int asked = 0;
  const auto make = [&] {
    return hooks::make_early_stopping([&] { return ++asked == 3; }, {.every = {.steps = 2}});
  };
  const RunControl control;
  const auto worker = make();
  worker->begin({.is_chief = false, .control = control});
  worker->after_step({.global_step = 1});
  EXPECT_EQ(asked, 0);
  const auto chief = make();
  chief->begin({.control = control});
  int64_t step = 0;
  while (!control.stop_requested() && step < 100) chief->after_step({.global_step = ++step});
  EXPECT_EQ(step, 3);  // asked at 0, 1 and 3
}

TEST(EarlyStoppingTest, BadOptionsAreRefused) {
  const auto said = [](auto make) {
    const Error error = error_of(make);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  EXPECT_EQ(said([] { hooks::stop_if_higher("", 1); }),
            "hooks::stop_if_higher got an empty metric");
  EXPECT_EQ(said([] { hooks::stop_if_lower("m", 1, {.min_steps = -1}); }),
            "hooks::stop_if_lower got min_steps = -1; it must be 0 or more");
  EXPECT_EQ(said([] { hooks::stop_if_no_decrease("m", 0); }),
            "hooks::stop_if_no_decrease got max_steps_without_decrease = 0; it must be 1 or more");
  EXPECT_EQ(said([] { hooks::make_early_stopping(nullptr); }),
            "hooks::make_early_stopping got an empty function");
  EXPECT_THAT(said([] {
                hooks::make_early_stopping([] { return true; },
                                           {.every = {.steps = 1, .time = Seconds(1)}});
              }),
              HasSubstr("got both every.steps (1) and every.time (1 s)"));
}

TEST(EvaluationHistoryTest, LaterValuesOfAStepCountAndADamagedTailDoesNot) {
  TempDirectory directory;
  EvaluationHistory history(local_file_system(), directory / "eval");
  EXPECT_FALSE(history.read());  // no such directory yet
  EXPECT_TRUE(history.values("m", 0, 100).empty());
  write_evaluations(directory / "eval", "m", {{10, 1}, {20, 2}, {10, 4}});
  EXPECT_TRUE(history.read());
  EXPECT_FALSE(history.read());
  EXPECT_THAT(history.values("m", 0, 100), ElementsAre(Pair(10, 4), Pair(20, 2)));
  EXPECT_THAT(history.values("m", 11, 100), ElementsAre(Pair(20, 2)));
  const auto paths = formats::list_event_files(local_file_system(), directory / "eval").value();
  std::ofstream(paths.at(0), std::ios::app) << "half a rec";
  EXPECT_TRUE(history.read());
  EXPECT_THAT(history.values("m", 0, 100), ElementsAre(Pair(10, 4), Pair(20, 2)));
}

// In a store events are many small files: each is read once.
TEST(EvaluationHistoryTest, InAStoreOnlyWhatIsNewIsRead) {
  MemoryStore store;
  EvaluationHistory history(store, "mem://b/eval");
  EXPECT_FALSE(history.read());
  write_evaluations("mem://b/eval", "m", {{10, 1}, {20, 2}}, store);
  EXPECT_TRUE(history.read());
  history.add(30, {{"m", 3.0}});
  write_evaluations("mem://b/eval", "m", {{10, 4}}, store);
  store.set_plan({.writes_only = false});
  EXPECT_TRUE(history.read());
  EXPECT_EQ(store.requests(), 2) << "a list and a file";
  EXPECT_FALSE(history.read());
  EXPECT_THAT(history.values("m", 0, 100), ElementsAre(Pair(10, 4), Pair(20, 2), Pair(30, 3)));
}

// A program that writes into a store joins old files: the part that a slow reader has not seen is
// in a file that it knew, and the file that it is about to read may be gone.
TEST(EvaluationHistoryTest, FilesThatAreJoinedMeanwhileLoseNothing) {
  MemoryStore store;
  EvaluationHistory history(store, "mem://b/eval");
  write_evaluations("mem://b/eval", "m", {{10, 1}}, store);
  EXPECT_TRUE(history.read());
  for (int64_t step : {20, 30}) write_evaluations("mem://b/eval", "m", {{step, 2}}, store);
  const auto join = [&](size_t from) {
    const auto paths = formats::list_event_files(store, "mem://b/eval").value();
    store
        .write_atomically(paths.at(0), store.read_file(paths.at(0)).value() +
                                           store.read_file(paths.at(from)).value())
        .value();
    store.remove(paths.at(from)).value();
  };
  join(1);
  EXPECT_TRUE(history.read());
  EXPECT_THAT(history.values("m", 0, 100), ElementsAre(Pair(10, 1), Pair(20, 2), Pair(30, 2)));
  write_evaluations("mem://b/eval", "m", {{40, 3}}, store);
  store.on_request([&](int64_t, const std::string& path) {
    if (!path.ends_with("/eval")) return;
    store.on_request(nullptr);
    store.set_plan({.writes_only = false});
    store.on_request([&](int64_t, const std::string&) {
      store.on_request(nullptr);
      join(2);
    });
  });
  store.set_plan({.writes_only = false});
  EXPECT_TRUE(history.read());
  EXPECT_FALSE(history.read());
  EXPECT_THAT(history.values("m", 0, 100),
              ElementsAre(Pair(10, 1), Pair(20, 2), Pair(30, 2), Pair(40, 3)));
}

}  // namespace
}  // namespace muster::inline v0_1
