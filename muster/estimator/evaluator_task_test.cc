#include "muster/estimator/internal/evaluator_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/evaluator_beside.h"
#include "muster/estimator/internal/lease_notes.h"
#include "muster/estimator/internal/scripted_model.h"
#include "muster/estimator/internal/training_watch.h"
#include "muster/files/testing/memory_store.h"
#include "muster/formats/event.h"
#include "muster/train/early_stopping.h"

namespace muster::inline v0_1 {
namespace {

using testing::Beside;
using testing::disk;
using ::testing::ElementsAre;
using testing::evaluated_steps;
using testing::Evaluating;
using testing::evaluator_config;
using testing::examples;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::KeepsPace;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::training_to;
using testing::two_layers;

std::map<int64_t, double> events_of(const std::string& directory, const std::string& tag) {
  std::map<int64_t, double> values;
  for (const std::string& name : disk().list_directory(directory).value()) {
    for (const formats::Event& event :
         formats::read_events(disk(), join_path(directory, name)).value().events) {
      for (const formats::SummaryValue& value : event.values) {
        if (value.tag == tag) values[event.step] = std::get<float>(value.value);
      }
    }
  }
  return values;
}

void evaluate_beside_a_chief(const std::string& model_dir) {
  Evaluating evaluator, chief;
  Beside beside(evaluator_config(model_dir), training_to(25), evaluator.spec());
  const auto pace = std::make_shared<KeepsPace>();
  Estimator trains(two_layers, quiet_config(model_dir));
  const auto on_chief = train_and_evaluate(trains, training_to(25, {pace}), chief.spec());
  const auto on_evaluator = beside.get();

  EXPECT_FALSE(on_chief);
  // Before the evaluator starts, the chief may look at the data; it evaluates nothing.
  EXPECT_LE(chief.inputs, 1);
  EXPECT_THAT(chief.exporter->steps, IsEmpty());
  EXPECT_THAT(chief.exporter->steps, IsEmpty());
  EXPECT_THAT(pace->heard, ::testing::IsSupersetOf({10, 20}));
  ASSERT_TRUE(on_evaluator);
  EXPECT_EQ(on_evaluator->at("global_step"), 25);
  EXPECT_THAT(evaluated_steps(model_dir), ElementsAre(10, 20, 25));
  EXPECT_THAT(evaluator.exporter->steps, ElementsAre(10, 20, -25));
  EXPECT_EQ(*on_evaluator, trains.evaluate([] { return examples(20).batch(10); }));
  const auto losses = events_of(model_dir + "/eval", "loss");
  EXPECT_EQ(losses.size(), 3u);
  EXPECT_FLOAT_EQ(losses.at(25), on_evaluator->at("loss"));
  EXPECT_THAT(events_of(model_dir + "/eval", "evaluator/lag_steps"),
              ElementsAre(std::pair(10, 0), std::pair(20, 0), std::pair(25, 0)));
  for (const char* lease : {"/chief.lease", "/evaluator.lease"})
    EXPECT_FALSE(disk().exists(model_dir + lease).value()) << lease;
}

TEST(EvaluatorTaskTest, EvaluatesWhatTheChiefSavesAndTheChiefDoesNot) {
  TempDirectory directory;
  evaluate_beside_a_chief(directory / "m");
}

TEST(EvaluatorTaskTest, ABucketStandsBetweenThemAsWell) {
  memory_store();
  evaluate_beside_a_chief("mem://evaluator/m");
}

// docs/buckets.md documents the cost of an evaluator.
TEST(EvaluatorTaskTest, ALookAtABucketIsSoManyRequests) {
  const std::string model_dir = "mem://looks/m";
  memory_store();
  Estimator trains(two_layers, quiet_config(model_dir));
  trains.train(shuffled_batches(64, 8), {.max_steps = 20});
  internal::TrainingWatch watch(internal::EstimatorAccess::impl(trains), std::nullopt);
  watch.look();
  ASSERT_EQ(watch.checkpoints().size(), 3u);
  memory_store().set_plan({.writes_only = false});
  watch.look();
  EXPECT_EQ(memory_store().requests(), 5 + 3);
  memory_store().clear();
}

// One long evaluation, after which training is through.
std::vector<int64_t> evaluated_beside_a_fast_run(bool every_checkpoint, Evaluating& evaluator,
                                                 const std::string& model_dir) {
  std::atomic<bool> trained{false};
  evaluator.at_input = [&] {
    if (evaluator.inputs == 1) await([&] { return trained.load(); });
  };
  EvalSpec spec = evaluator.spec();
  spec.every_checkpoint = every_checkpoint;
  Beside beside(evaluator_config(model_dir), training_to(52), spec);
  Evaluating chief;
  // Step 10 is saved, and its evaluation has begun.
  class WaitsForTheFirst : public Hook {
   public:
    WaitsForTheFirst(std::atomic<int>& inputs, std::atomic<bool>& trained)
        : inputs_(inputs), trained_(trained) {}
    void begin(const RunInfo& info) override {
      const std::string lease = join_path(info.model_dir, "evaluator.lease");
      await([&] { return disk().exists(lease).value(); });
    }
    void before_step(int64_t step) override {
      if (step == 11) await([&] { return inputs_ > 0; });
    }
    void after_save(int64_t step, const std::string&) override { trained_ = step == 52; }

   private:
    std::atomic<int>& inputs_;
    std::atomic<bool>& trained_;
  };
  RunConfig config = quiet_config(model_dir);
  config.keep_checkpoint_max = 1;
  Estimator trains(two_layers, config);
  train_and_evaluate(
      trains, training_to(52, {std::make_shared<WaitsForTheFirst>(evaluator.inputs, trained)}),
      chief.spec());
  // Before the evaluator starts, the chief may look at the data; it evaluates nothing.
  EXPECT_LE(chief.inputs, 1);
  EXPECT_THAT(chief.exporter->steps, IsEmpty());
  EXPECT_EQ(beside.get()->at("global_step"), 52);
  return evaluated_steps(model_dir);
}

TEST(EvaluatorTaskTest, ASlowOneContinuesWithTheNewestAndSaysHowFarItIsBehind) {
  TempDirectory directory;
  Evaluating evaluator;
  EXPECT_THAT(evaluated_beside_a_fast_run(false, evaluator, directory / "m"), ElementsAre(10, 52));
  EXPECT_THAT(events_of(directory / "m/eval", "evaluator/lag_steps"),
              ElementsAre(std::pair(10, 42), std::pair(52, 0)));
  EXPECT_THAT(evaluator.exporter->steps, ElementsAre(10, -52));
}

TEST(EvaluatorTaskTest, EveryCheckpointWaitsForItOnTheDisk) {
  TempDirectory directory;
  Evaluating evaluator;
  EXPECT_THAT(evaluated_beside_a_fast_run(true, evaluator, directory / "m"),
              ElementsAre(10, 20, 30, 40, 50, 52));
  EXPECT_FALSE(disk().exists(directory / "m/model.ckpt-50.safetensors").value());
  EXPECT_THAT(evaluator.exporter->steps, ElementsAre(10, 20, 30, 40, 50, -52));
}

TEST(EvaluatorTaskTest, EachSpecIsEvaluatedByItsName) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Estimator(two_layers, quiet_config(model_dir)).train(shuffled_batches(64, 8), {.max_steps = 20});
  Evaluating small, large;
  std::vector<EvalSpec> specs = {small.spec(), large.spec()};
  specs[0].name = "small";
  specs[1].name = "large";
  specs[1].every_checkpoint = true;
  specs[1].exporters.clear();  // exporters have names of their own
  RunConfig config = evaluator_config(model_dir);
  config.eval_distribute = distribute::mirrored({.replicas = 2});
  Estimator evaluates(two_layers, config);
  const TrainAndEvaluateResult result = train_and_evaluate(evaluates, training_to(20), specs);
  EXPECT_EQ(result.training.global_step, 20);
  EXPECT_EQ(result.training.steps, 0);
  ASSERT_EQ(result.evaluations.size(), 2u);
  EXPECT_EQ(result.evaluations.at("small"), result.evaluations.at("large"));
  EXPECT_THAT(evaluated_steps(model_dir, "small"), ElementsAre(20));
  EXPECT_THAT(evaluated_steps(model_dir, "large"), ElementsAre(10, 20));
  EXPECT_EQ(events_of(model_dir + "/eval_large", "loss").size(), 2u);
  EXPECT_THAT(small.exporter->steps, ElementsAre(-20));
}

TEST(EvaluatorTaskTest, DelayAndThrottleHoldUntilTrainingIsOver) {
  TempDirectory directory;
  Evaluating evaluator, chief;
  EvalSpec spec = evaluator.spec();
  spec.start_delay_secs = Seconds(3600);
  Beside delayed(evaluator_config(directory / "m"), training_to(30), spec);
  class WaitsForALease : public Hook {
    void begin(const RunInfo& info) override {
      const std::string lease = join_path(info.model_dir, "evaluator.lease");
      await([&] { return disk().exists(lease).value(); });
    }
  };
  const auto train = [&](int64_t steps) {
    Estimator trains(two_layers, quiet_config(directory / "m"));
    train_and_evaluate(trains, training_to(steps, {std::make_shared<WaitsForALease>()}),
                       chief.spec());
  };
  train(30);
  EXPECT_EQ(delayed.get()->at("global_step"), 30);
  EXPECT_THAT(evaluated_steps(directory / "m"), ElementsAre(30));
  spec.start_delay_secs = Seconds(0);
  spec.throttle_secs = Seconds(3600);
  Beside throttled(evaluator_config(directory / "m"), training_to(60), spec);
  train(60);
  EXPECT_EQ(throttled.get()->at("global_step"), 60);
  const std::vector<int64_t> steps = evaluated_steps(directory / "m");
  EXPECT_LE(steps.size(), 3u);
  EXPECT_EQ(steps.back(), 60);
}

TEST(EvaluatorTaskTest, OneThatIsStartedAgainEvaluatesNothingTwice) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Evaluating first, second, chief;
  first.exporter->fails_at = 20;
  const EvalSpec spec = second.spec();
  std::optional<Beside> again;
  const auto fallen = std::async(std::launch::async, [&] {
    const Error error =
        error_of([&] { Beside(evaluator_config(model_dir), training_to(35), first.spec()).get(); });
    again.emplace(evaluator_config(model_dir), training_to(35), spec);
    return error;
  });
  Estimator trains(two_layers, quiet_config(model_dir));
  train_and_evaluate(trains, training_to(35, {std::make_shared<KeepsPace>()}), chief.spec());
  fallen.wait();
  again->get();
  const std::vector<int64_t> steps = evaluated_steps(model_dir);
  const std::set<int64_t> once(steps.begin(), steps.end());
  EXPECT_EQ(once, (std::set<int64_t>{10, 20, 30, 35}));
  EXPECT_EQ(steps.size(), once.size()) << ::testing::PrintToString(steps);
}

TEST(EvaluatorTaskTest, ASecondOneStandsByAndEndsWithTheFirst) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  const TrainSpec until_data_ends{.input_fn = shuffled_batches(80, 8, 2)};
  Evaluating first, second, chief;
  Beside works(evaluator_config(model_dir), until_data_ends, first.spec());
  await([&] { return disk().exists(model_dir + "/evaluator.lease").value(); });
  class NotesLooks : public FaultFileSystem {
   public:
    using FaultFileSystem::FaultFileSystem;
    Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
      auto reader = FaultFileSystem::open_reader(path);
      if (path.ends_with("run_end.json")) looked = true;
      return reader;
    }
    std::atomic<bool> looked{false};
  };
  NotesLooks noting(disk());
  RunConfig second_config = evaluator_config(model_dir, 1);
  second_config.fs = &noting;
  Beside stands_by(second_config, until_data_ends, second.spec());
  await([&] { return noting.looked.load(); });
  Estimator trains(two_layers, quiet_config(model_dir));
  TrainSpec training = until_data_ends;
  training.hooks = {std::make_shared<KeepsPace>()};
  train_and_evaluate(trains, training, chief.spec());
  EXPECT_EQ(works.get()->at("global_step"), 20);
  EXPECT_FALSE(stands_by.get());
  EXPECT_THAT(first.exporter->steps,
              ::testing::AnyOf(ElementsAre(10, -20), ElementsAre(10, 20, -20)));
  EXPECT_EQ(second.inputs, 0);
  EXPECT_THAT(second.exporter->steps, IsEmpty());
}

TEST(EvaluatorTaskTest, TheChiefEvaluatesWhereTheEvaluatorIsDead) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  disk().make_directories(model_dir).value();
  const pid_t child = fork();
  if (child == 0) {
    Lease lease(model_dir, internal::kEvaluatorLease, {.holder = "evaluator:0"});
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  Evaluating chief;
  Estimator trains(two_layers, quiet_config(model_dir));
  const auto result = train_and_evaluate(trains, training_to(15), chief.spec());
  EXPECT_EQ(result->at("global_step"), 15);
  EXPECT_THAT(evaluated_steps(model_dir), ElementsAre(10, 15));
  EXPECT_THAT(chief.exporter->steps, ElementsAre(10, -15));
}

TEST(EvaluatorTaskTest, KeepBestAndEarlyStoppingHearOfItsEvaluations) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  RunConfig config = quiet_config(model_dir);
  config.keep_checkpoint_max = 1;
  config.keep_best = KeepBest{.metric = "m", .higher_is_better = false};
  RunConfig beside_config = evaluator_config(model_dir);
  beside_config.keep_best = config.keep_best;
  Evaluating evaluator, chief;
  Beside beside(beside_config, training_to(1000), evaluator.spec(), testing::falls_until_30);
  Estimator trains(testing::falls_until_30, config);
  train_and_evaluate(
      trains,
      training_to(1000, {std::make_shared<KeepsPace>(), hooks::stop_if_no_decrease("m", 20)}),
      chief.spec());
  const auto result = beside.get();
  // Before the evaluator starts, the chief may look at the data; it evaluates nothing.
  EXPECT_LE(chief.inputs, 1);
  EXPECT_THAT(chief.exporter->steps, IsEmpty());
  // 0 since step 30: step 50 is the first that is 20 steps older.
  EXPECT_GE(result->at("global_step"), 50);
  EXPECT_LT(result->at("global_step"), 100);
  const auto best = best_checkpoints(model_dir);
  ASSERT_EQ(best.size(), 1u);
  EXPECT_EQ(best[0].global_step, 30);
}

TEST(EvaluatorTaskTest, AModelDirIsNeededAndTrainIsRefused) {
  TempDirectory directory;
  Evaluating evaluator;
  Estimator nowhere(two_layers, evaluator_config(""));
  EXPECT_THAT(message_of([&] { train_and_evaluate(nowhere, training_to(5), evaluator.spec()); }),
              HasSubstr("evaluator:0 evaluates the checkpoints of a model_dir, and none is named"));
  Estimator somewhere(two_layers, evaluator_config(directory / "m"));
  EXPECT_THAT(message_of([&] { somewhere.train(shuffled_batches(8, 8), {.steps = 1}); }),
              HasSubstr("a task of type \"evaluator\" does not train: it evaluates"));
}

}  // namespace
}  // namespace muster::inline v0_1
