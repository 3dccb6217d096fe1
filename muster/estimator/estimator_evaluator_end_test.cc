// When an evaluator ends, and which signs it does not take for the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/evaluator_beside.h"
#include "muster/estimator/internal/evaluator_link.h"
#include "muster/estimator/internal/lease_notes.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using testing::Beside;
using testing::disk;
using ::testing::ElementsAre;
using testing::evaluated_steps;
using testing::Evaluating;
using testing::evaluator_config;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::KeepsPace;
using testing::NotesExports;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::training_to;
using testing::two_layers;

TEST(EvaluatorEndTest, WhereMaxStepsAreReachedItEvaluatesWhatThereIs) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Estimator(two_layers, quiet_config(model_dir)).train(shuffled_batches(64, 8), {.max_steps = 20});
  for (int time = 1; time <= 2; ++time) {
    Evaluating evaluator;
    Beside beside(evaluator_config(model_dir), training_to(20), evaluator.spec());
    EXPECT_EQ(beside.get()->at("global_step"), 20);
    EXPECT_EQ(evaluator.inputs, 1);
    EXPECT_THAT(evaluator.exporter->steps, ElementsAre(-20));
  }
}

// A run that ended by its data; max_steps say nothing then.
void train_until_data_ends(const std::string& model_dir, const std::string& run = {}) {
  RunConfig config = quiet_config(model_dir);
  if (!run.empty()) config.environment = Environment{{"MUSTER_RUN_ID", run}};
  Estimator(two_layers, config).train(shuffled_batches(80, 8, 2));
}

TEST(EvaluatorEndTest, AnEndThatWasThereIsBelievedAfterAWhileOrWhereItIsOfThisRun) {
  TempDirectory directory;
  for (const std::string run : {"", "this"}) {
    const std::string model_dir = directory / ("m" + run);
    train_until_data_ends(model_dir, run);
    RunConfig config = evaluator_config(model_dir);
    if (run.empty()) {
      config.join_timeout = Seconds(0.1);
    } else {
      config.environment = config.environment->with("MUSTER_RUN_ID", run);
    }
    Evaluating evaluator;
    Beside beside(config, {.input_fn = shuffled_batches(80, 8, 2)}, evaluator.spec());
    EXPECT_EQ(beside.get()->at("global_step"), 20);
    EXPECT_EQ(evaluator.exporter->steps.back(), -20);
  }
}

// It started before the chief, which removes the end of the run before.
TEST(EvaluatorEndTest, AnEndOfTheRunBeforeEndsNothing) {
  TempDirectory directory;
  for (const std::string before : {"", "before"}) {
    const std::string model_dir = directory / ("m" + before);
    train_until_data_ends(model_dir, before);
    RunConfig config = evaluator_config(model_dir), chief_config = quiet_config(model_dir);
    chief_config.restart_input = true;
    if (!before.empty()) {
      config.environment = config.environment->with("MUSTER_RUN_ID", "now");
      chief_config.environment = Environment{{"MUSTER_RUN_ID", "now"}};
    }
    Evaluating evaluator, chief;
    Beside beside(config, {.input_fn = shuffled_batches(80, 8, 1)}, evaluator.spec());
    await([&] { return !evaluated_steps(model_dir).empty(); });
    Estimator trains(two_layers, chief_config);
    train_and_evaluate(
        trains, {.input_fn = shuffled_batches(80, 8, 1), .hooks = {std::make_shared<KeepsPace>()}},
        chief.spec());
    EXPECT_EQ(beside.get()->at("global_step"), 30);
    EXPECT_THAT(evaluated_steps(model_dir), ElementsAre(20, 30));
    EXPECT_EQ(evaluator.exporter->steps.front(), 20);
    EXPECT_EQ(evaluator.exporter->steps.back(), -30);
    EXPECT_EQ(chief.inputs, 0);
  }
}

TEST(EvaluatorEndTest, WaitsNoLongerThanItsLimit) {
  TempDirectory directory;
  RunConfig config = evaluator_config(directory / "m");
  config.evaluator_timeout = Seconds(0.2);
  Evaluating evaluator;
  const Error error = error_of([&] { Beside(config, training_to(20), evaluator.spec()).get(); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("evaluator:0 waited"),
                                     HasSubstr("for the first checkpoint in " + directory / "m")));
  EXPECT_THAT(error.hint(), HasSubstr("RunConfig.evaluator_timeout, which is 0.2 s"));
  // After a checkpoint, and if a chief is gone without notice.
  Estimator(two_layers, quiet_config(directory / "m")).train(shuffled_batches(64, 8), {.steps = 3});
  disk().remove(directory / "m/run_end.json").value();
  EXPECT_THAT(error_of([&] { Beside(config, training_to(20), evaluator.spec()).get(); }).message(),
              HasSubstr("for a checkpoint after step 3 in"));
  EXPECT_EQ(evaluator.inputs, 1) << "what there is was evaluated";
}

TEST(EvaluatorEndTest, ADamagedCheckpointIsPassedOverAndTheLastOneIsAnError) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Estimator(two_layers, quiet_config(model_dir)).train(shuffled_batches(64, 8), {.max_steps = 20});
  disk().remove(model_dir + "/run_end.json").value();
  const std::string newest = model_dir + "/model.ckpt-20.safetensors";
  const std::string half = disk().read_file(newest).value().substr(0, 300);
  disk().write_atomically(newest, std::string_view(half)).value();
  RunConfig config = evaluator_config(model_dir);
  config.evaluator_timeout = Seconds(0.3);
  Evaluating evaluator;
  EXPECT_EQ(error_of([&] { Beside(config, training_to(30), evaluator.spec()).get(); }).kind(),
            ErrorKind::kTimeout);
  EXPECT_THAT(evaluated_steps(model_dir), ElementsAre(10));
  const Error last = error_of([&] { Beside(config, training_to(20), evaluator.spec()).get(); });
  EXPECT_EQ(last.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(last.message(), AllOf(HasSubstr("its last checkpoint was not evaluated"),
                                    HasSubstr("model.ckpt-20")));
}

TEST(EvaluatorEndTest, EndsByItselfWhereTrainingFailsForGood) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  class Fails : public KeepsPace {
   public:
    void after_step(const StepInfo& info) override {
      if (info.global_step == 15) throw invalid_argument("this hook fails");
    }
  };
  Evaluating evaluator, chief;
  Beside beside(evaluator_config(model_dir), training_to(20), evaluator.spec());
  Estimator trains(two_layers, quiet_config(model_dir));
  EXPECT_THAT(error_of([&] {
                train_and_evaluate(trains, training_to(20, {std::make_shared<Fails>()}),
                                   chief.spec());
              }).what(),
              HasSubstr("this hook fails"));
  EXPECT_EQ(beside.get()->at("global_step"), 10);
  EXPECT_THAT(evaluator.exporter->steps, ElementsAre(10)) << "no final export";
}

// Training that waits for an evaluator of its own, whatever comes first.
TrainSpec training_beside(int64_t max_steps) {
  class WaitsForALease : public Hook {
    void begin(const RunInfo& info) override {
      const std::string lease = join_path(info.model_dir, "evaluator.lease");
      await([&] { return disk().exists(lease).value(); });
    }
  };
  return training_to(max_steps, {std::make_shared<WaitsForALease>()});
}

// Many a scheduler ends all that still runs when the chief has ended with 0.
TEST(EvaluatorEndTest, TheChiefEndsWhenTheLastEvaluationAndItsExportsAreDone) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  class SlowExport : public NotesExports {
   public:
    std::optional<std::string> export_model(Estimator& estimator, const std::string& folder,
                                            const std::string& checkpoint_path,
                                            const EvalResult& result, bool is_final) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      NotesExports::export_model(estimator, folder, checkpoint_path, result, is_final);
      exported = is_final;
      return std::nullopt;
    }
    std::atomic<bool> exported{false};
  };
  const auto exporter = std::make_shared<SlowExport>();
  Evaluating evaluator, chief;
  EvalSpec spec = evaluator.spec();
  spec.exporters = {exporter};
  Beside beside(evaluator_config(model_dir), training_to(25), spec);
  Estimator trains(two_layers, quiet_config(model_dir));
  EXPECT_FALSE(train_and_evaluate(trains, training_beside(25), chief.spec()));
  EXPECT_TRUE(exporter->exported);
  EXPECT_EQ(evaluated_steps(model_dir).back(), 25);
  EXPECT_FALSE(disk().exists(model_dir + "/evaluator.lease").value());
  // Before the evaluator starts, the chief may look at the data; it evaluates nothing.
  EXPECT_LE(chief.inputs, 1);
  EXPECT_THAT(chief.exporter->steps, IsEmpty());
  EXPECT_EQ(beside.get()->at("global_step"), 25);
}

TEST(EvaluatorEndTest, TheChiefEvaluatesTheLastOneWhereTheEvaluatorFailsOnIt) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Evaluating evaluator, chief;
  evaluator.exporter->fails_at = 25;
  Beside beside(evaluator_config(model_dir), training_to(25), evaluator.spec());
  Estimator trains(two_layers, quiet_config(model_dir));
  const auto result = train_and_evaluate(trains, training_beside(25), chief.spec());
  EXPECT_THAT(error_of([&] { beside.get(); }).what(), HasSubstr("this exporter fails"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->at("global_step"), 25);
  EXPECT_EQ(chief.exporter->steps.back(), -25);
}

struct LinkUnderTest {
  explicit LinkUnderTest(const std::string& model_dir, std::function<bool()> cancelled = {})
      : evaluator(model_dir, internal::kEvaluatorLease,
                  {.holder = "evaluator:0, process 1 on h", .note = internal::note_of_end(30)}),
        link({.model_dir = model_dir,
              .task = {.type = "chief"},
              .fs = &disk(),
              .clock = &system_clock(),
              .cancelled = std::move(cancelled)}) {}
  Lease evaluator;
  internal::EvaluatorLink link;
};

TEST(EvaluatorEndTest, AChiefThatIsStoppedMeanwhileSaysThatTheLastEvaluationIsMissing) {
  TempDirectory directory;
  bool stop = false;
  LinkUnderTest test(directory.path(), [&] { return stop; });
  ASSERT_TRUE(test.link.hand_over(30));
  const Error error = error_of([&] { test.link.await_last({""}, 30, [&](bool) { stop = true; }); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.message(),
              HasSubstr("stopped while evaluator:0, process 1 on h evaluated step 30"));
  EXPECT_THAT(error.hint(), HasSubstr("run the same command again"));
}

TEST(EvaluatorEndTest, AnotherTasksFailureEndsTheWait) {
  TempDirectory directory;
  LinkUnderTest test(directory.path());
  ASSERT_TRUE(test.link.hand_over(30));
  EXPECT_EQ(error_of([&] {
              test.link.await_last(
                  {""}, 30, [](bool) { throw Error(ErrorKind::kPeerLost, "worker 1 was lost"); });
            }).kind(),
            ErrorKind::kPeerLost);
}

}  // namespace
}  // namespace muster::inline v0_1
