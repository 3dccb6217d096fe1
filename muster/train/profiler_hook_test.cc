#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/timeline.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/hooks.h"
#include "muster/train/internal/clock_offset.h"
#include "muster/train/model_context.h"
#include "muster/train/step_trace.h"
#include "muster/train/trainer.h"
#include "tests/support/read_trace.h"

namespace muster::inline v0_1 {
namespace {

using distribute::SpanRecorder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::names_of;
using testing::read_trace;
using testing::TraceEvent;
using testing::TraceRows;
using ::testing::UnorderedElementsAre;

const nlohmann::json kNoneGiven = nlohmann::json::object();

// loss = mean((w - x)^2) of two weights.
EstimatorSpec two_weights(const Features& features, const Labels&, Mode, ModelContext& context) {
  const auto weight = [&](const char* name) {
    return context.variable(
        {.name = name, .shape = {3}, .initializer = [](const Shape& shape, DType dtype, RandomKey) {
           return torch::ones(shape, torch::TensorOptions(dtype));
         }});
  };
  const Tensor loss = (weight("v").sum() + weight("w").sum() - features.tensor()).square().mean();
  return EstimatorSpec::train(
      loss, context.optimizer(optim::sgd({.learning_rate = 0.01})).minimize(loss));
}

InputFn twelve_batches() {
  return
      [] { return Dataset::from_tensor_slices(torch::arange(0, 24, at::kFloat)).global_batch(2); };
}

TrainerOptions with_hooks(const std::string& model_dir, std::vector<std::shared_ptr<Hook>> hooks,
                          distribute::StrategyPtr strategy = distribute::one_device()) {
  return {.model_dir = model_dir,
          .strategy = std::move(strategy),
          .params = &kNoneGiven,
          .hooks = std::move(hooks)};
}

std::vector<std::string> timelines_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& name : local_file_system().list_directory(directory).value())
    if (name.starts_with("timeline-")) names.push_back(name);
  return names;
}

TEST(ProfilerTest, WantsToKnowHowOften) {
  const auto said = [](const hooks::ProfilerOptions& options) {
    return message_of([&] { hooks::profiler(options); });
  };
  EXPECT_EQ(said({}), "hooks::profiler got neither every.steps nor every.time");
  EXPECT_EQ(said({.every = {.steps = 3, .time = Seconds(2)}}),
            "hooks::profiler got both every.steps (3) and every.time (2 s)");
  EXPECT_EQ(said({.every = {.steps = 0}}),
            "hooks::profiler got every.steps = 0; it must be 1 or more");
  EXPECT_EQ(said({.every = {.time = Seconds(1)}, .steps_in_a_row = 0}),
            "hooks::profiler got steps_in_a_row = 0; it must be 1 or more");
  EXPECT_EQ(said({.every = {.steps = 2}, .steps_in_a_row = 3}),
            "hooks::profiler got every.steps = 2 and steps_in_a_row = 3");
  EXPECT_THAT(
      message_of([] { hooks::profiler({.every = {.steps = 1}})->begin({.mode = Mode::kEval}); }),
      HasSubstr("records training, and was given to something else"));
}

TEST(ProfilerTest, WritesTheSecondStepAndThenEverySoMany) {
  TempDirectory directory;
  TrainerOptions options = with_hooks(directory.path(), {hooks::profiler({.every = {.steps = 4}})});
  options.save_checkpoints_steps = 6;
  options.after_save = [](int64_t, const Saved&, distribute::Replica&) {};
  train(two_weights, twelve_batches(), options);
  EXPECT_THAT(timelines_in(directory.path()),
              ElementsAre("timeline-10.json", "timeline-2.json", "timeline-6.json"));

  TraceRows second = read_trace(directory / "timeline-2.json");
  ASSERT_EQ(second.size(), 1u);
  const std::vector<TraceEvent>& events = second[{"process", "step"}];
  EXPECT_THAT(names_of(events),
              ElementsAre("step 2", "hooks", "input", "forward", "backward", "update", "hooks"));
  EXPECT_EQ(events[0].begin, 0);
  for (const TraceEvent& event : events) EXPECT_LE(event.end, events[0].end);
  EXPECT_EQ(events[0].args, (nlohmann::json{{"global_step", 2}}));

  TraceRows sixth = read_trace(directory / "timeline-6.json");
  const std::vector<std::string> names = names_of(sixth[{"process", "step"}]);
  EXPECT_THAT(std::vector<std::string>(names.begin() + 6, names.end()),
              ElementsAre("hooks", "saving", "evaluating"));
}

TEST(ProfilerTest, StepsInARowOfSeveralBatchesStandInOneFile) {
  TempDirectory directory;
  TrainerOptions options = with_hooks(
      directory.path(),
      {hooks::profiler(
          {.every = {.steps = 4}, .steps_in_a_row = 2, .output_dir = directory / "a" + "/b"})});
  options.accumulate_steps = 2;
  train(two_weights, twelve_batches(), options);
  // The run has six steps: the second file has the only one there was.
  EXPECT_THAT(timelines_in(directory / "a/b"), ElementsAre("timeline-3.json", "timeline-6.json"));
  TraceRows rows = read_trace(directory / "a/b/timeline-3.json");
  EXPECT_THAT(names_of(rows[{"process", "step"}]),
              ElementsAre("step 2", "hooks", "input", "forward", "backward", "input", "forward",
                          "backward", "update", "hooks",  //
                          "step 3", "hooks", "input", "forward", "backward", "input", "forward",
                          "backward", "update", "hooks"));
}

TEST(ProfilerTest, EverySecondsFollowTheClock) {
  TempDirectory directory;
  ManualClock clock;
  struct Tick : Hook {
    explicit Tick(ManualClock& clock) : clock(clock) {}
    void after_step(const StepInfo&) override { clock.advance(from_seconds(1)); }
    ManualClock& clock;
  };
  train(two_weights, twelve_batches(),
        with_hooks(directory.path(),
                   {hooks::profiler({.every = {.time = Seconds(5)}, .clock = &clock}),
                    std::make_shared<Tick>(clock)}));
  EXPECT_THAT(timelines_in(directory.path()),
              ElementsAre("timeline-12.json", "timeline-2.json", "timeline-7.json"));
}

TEST(ProfilerTest, ReplicasOfAProcessHaveRowsOfTheirOwn) {
  TempDirectory directory;
  train(two_weights, twelve_batches(),
        with_hooks(directory.path(), {hooks::profiler({.every = {.steps = 100}})},
                   distribute::mirrored({.replicas = 2})));
  TraceRows rows = read_trace(directory / "timeline-2.json");
  EXPECT_EQ(rows.size(), 4u);
  for (const char* replica : {"0", "1"}) {
    EXPECT_THAT(names_of(rows[{"process", std::string("step of replica ") + replica}]),
                ElementsAre("step 2", "hooks", "input", "forward", "backward", "reduction",
                            "update", "hooks"));
    const auto& buckets = rows[{"process", std::string("reduction of replica ") + replica}];
    ASSERT_THAT(names_of(buckets), ElementsAre("bucket 1 of 1"));
    EXPECT_EQ(buckets[0].args.at("tensors"), 2);
    EXPECT_GE(buckets[0].args.at("bytes"), 2 * 64);
    EXPECT_GE(buckets[0].args.at("queued_ns"), 0);
  }
}

TEST(ProfilerTest, AWriteThatFailsEndsTheRun) {
  TempDirectory directory;
  FaultFileSystem files(local_file_system(), {.no_space_from = 1});
  const Error error = error_of([&] {
    train(two_weights, twelve_batches(),
          with_hooks(directory.path(), {hooks::profiler({.every = {.steps = 2}, .fs = &files})}));
  });
  EXPECT_THAT(error.message(), HasSubstr("timeline-2.json"));
  EXPECT_THAT(timelines_in(directory.path()), IsEmpty());
}

TEST(ProfilerTest, AHookOfOnesOwnMayAskForAProfile) {
  struct Asks : Hook {
    void begin(const RunInfo& info) override { control = info.control; }
    void before_step(int64_t step) override {
      if (step == 3) control.request_profile(2);
      if (step == 4) control.request_profile(7);  // one is under way
    }
    void after_profile(int64_t step, const formats::Timeline& timeline) override {
      steps.push_back(step);
      for (const auto& span : timeline.spans) {
        if (span.name.starts_with("step")) names.push_back(span.name);
      }
      EXPECT_EQ(timeline.notes.at("clocks"), "tasks seem to share a clock");
    }
    RunControl control;
    std::vector<int64_t> steps;
    std::vector<std::string> names;
  };
  TempDirectory directory;
  const auto asks = std::make_shared<Asks>();
  train(two_weights, twelve_batches(), with_hooks(directory.path(), {asks}));
  EXPECT_THAT(asks->steps, ElementsAre(5));
  EXPECT_THAT(asks->names, ElementsAre("step 4", "step 5"));
}

TEST(StepTraceTest, NotesTheSpansItAddsUp) {
  SpanRecorder recorder;
  StepTrace trace;
  trace.record_into(&recorder);
  trace.start();
  trace.lap(StepTrace::kInput);
  trace.lap(StepTrace::kForward);
  trace.lap(distribute::StepTimes{});  // the replica's
  trace.record_into(nullptr);
  trace.lap(StepTrace::kHooks);
  const auto spans = recorder.take().spans;
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].name, "input");
  EXPECT_EQ(spans[1].name, "forward");
  EXPECT_EQ(spans[0].end, spans[1].begin);
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_DOUBLE_EQ(static_cast<double>(spans[s].end - spans[s].begin) * 1e-9,
                     trace.seconds(s == 0 ? StepTrace::kInput : StepTrace::kForward));
  }
}

TEST(ClockOffsetTest, LiesBetweenWhatEachMeetingAllows) {
  using internal::clock_offset;
  // Their clock shows 1000 more. It is at least 1090 - 110 by the first meeting, and at most
  // 1206 - 200 by the second.
  const auto [offset, uncertainty] =
      clock_offset({{100, 110}, {200, 290}}, {{1090, 1150}, {1195, 1206}});
  EXPECT_EQ(offset, 993);
  EXPECT_EQ(uncertainty, 13);
  EXPECT_LE(std::abs(1000 - offset), uncertainty);
}

TEST(ClockOffsetTest, IsNoneWhereOneClockExplainsAll) {
  const auto same = internal::clock_offset({{100, 110}, {200, 260}}, {{104, 111}, {190, 230}});
  EXPECT_EQ(same.offset, 0);
  EXPECT_EQ(same.uncertainty, 11);
  // By one nanosecond too much.
  EXPECT_EQ(internal::clock_offset({{100, 110}}, {{111, 113}}).offset, 7);
  EXPECT_EQ(internal::clock_offset({{100, 110}}, {{80, 99}}).offset, -15 + -1);
}

}  // namespace
}  // namespace muster::inline v0_1
