// A run whose model_dir is in a store: what it does there, and what becomes of it when the store
// fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/exporter.h"
#include "muster/estimator/run_end.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/estimator/train_and_evaluate.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"
#include "muster/formats/event.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::examples;
using ::testing::HasSubstr;
using testing::quiet_config;
using testing::shuffled_batches;
using testing::two_layers;

struct StoreRun : ::testing::Test {
  StoreRun() { memory_store().clear(); }
  ~StoreRun() override { memory_store().clear(); }

  // Checkpoints of these steps cannot be written from now on.
  static void fail_saves_of(const std::vector<int64_t>& steps) {
    memory_store().set_plan({.fail_from = 0, .only = [steps](const std::string& path) {
                               return std::ranges::find(steps, checkpoint_step(path)) !=
                                      steps.end();
                             }});
  }
  TrainResult train(int64_t max_steps, RunConfig config) {
    return Estimator(two_layers, std::move(config))
        .train(shuffled_batches(64, 8), {.max_steps = max_steps});
  }
  std::vector<int64_t> saved_steps() {
    std::vector<int64_t> steps;
    for (const std::string& name : file_systems().list_directory(kRun).value()) {
      if (name.ends_with(".safetensors")) steps.push_back(checkpoint_step(name));
    }
    std::ranges::sort(steps);
    return steps;
  }

  const std::string kRun = "mem://runs/mine";
};

// Continued in between, it ends with the bits of a run on a disk.
TEST_F(StoreRun, ContinuesAsOnADisk) {
  TempDirectory directory;
  train(25, quiet_config(directory / "m"));
  train(15, quiet_config(kRun + "/"));
  EXPECT_THAT(saved_steps(), ElementsAre(0, 10, 15));
  train(25, quiet_config(kRun));
  EXPECT_EQ(testing::largest_difference(testing::latest(kRun), testing::latest(directory / "m")),
            0);
  EXPECT_EQ(read_run_end(kRun)->global_step, 25);
  for (const std::string& name : memory_store().objects()) {
    EXPECT_EQ(name.find("//", 6), std::string::npos) << name;
    EXPECT_FALSE(name.ends_with(".lease")) << name << ": the run is over";
  }
}

// A run whose look into its model_dir fails ends with that; it never takes the store for empty and
// begins again.
TEST_F(StoreRun, ALookThatFailsNeverBeginsAnew) {
  train(15, quiet_config(kRun));
  std::map<std::string, std::string> before;
  for (const std::string& name : memory_store().objects())
    before[name] = memory_store().read_file(name).value();
  for (int64_t at = 0;; ++at) {
    // Steps of training tell nothing new.
    const int64_t max_steps = 16;
    memory_store().set_plan({.fail_at = at, .writes_only = false});
    try {
      EXPECT_EQ(train(max_steps, quiet_config(kRun)).steps, 1) << at;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << at << ": " << error.what();
    }
    const bool all = memory_store().requests() <= at;
    memory_store().clear();
    if (all) break;
    for (const auto& [name, content] : before)
      memory_store().write_atomically(name, content).value();
  }
}

TEST_F(StoreRun, WhoCannotLookDoesNotSayThatNothingIsThere) {
  memory_store().set_plan({.fail_from = 1, .writes_only = false});
  const Error error = error_of(
      [&] { (void)Estimator(two_layers, quiet_config(kRun)).evaluate(shuffled_batches(64, 8)); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
}

TEST_F(StoreRun, EvaluationsEventsAndExportsAreThere) {
  const ServingInputReceiver receiver =
      raw_serving_input_receiver({{"x", {kFloat32, {testing::kFeatures}}}});
  {
    RunConfig config = quiet_config(kRun);
    config.keep_best = KeepBest{};
    Estimator estimator(two_layers, config, {{"optimizer", "sgd"}});
    train_and_evaluate(
        estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 20},
        {.input_fn = [] { return examples(8).batch(8); },
         .exporters = {latest_exporter("latest", receiver, {.exports_to_keep = 1})}});
    EXPECT_FALSE(best_checkpoints(kRun).empty());
  }
  std::vector<int64_t> evaluated;
  for (const std::string& path :
       formats::list_event_files(file_systems(), kRun + "/eval").value()) {
    for (const formats::Event& event : formats::read_events(file_systems(), path).value().events) {
      for (const formats::SummaryValue& value : event.values)
        if (value.tag == "loss") evaluated.push_back(event.step);
    }
  }
  EXPECT_THAT(evaluated, ElementsAre(10, 20));
  EXPECT_FALSE(formats::list_event_files(file_systems(), kRun).value().empty());
  const std::string exports = kRun + "/export/latest";
  const std::vector<int64_t> versions = model_versions(exports);
  ASSERT_EQ(versions.size(), 1u);
  const std::string version = join_path(exports, std::to_string(versions[0]));
  EXPECT_EQ(Servable(version).global_step(), 20);
  // Half of an export, as a killed one leaves it, is not a version; nor is one that is being
  // removed.
  file_systems().write_atomically(exports + "/9999999999/model.pt", "half").value();
  EXPECT_EQ(newest_version(exports), versions[0]);
  Estimator again(two_layers, quiet_config(kRun), {{"optimizer", "sgd"}});
  const auto path = again.export_model(exports, receiver);
  EXPECT_EQ(base_name(*path), "10000000000") << "the number that was begun is not taken again";
  file_systems().remove(version + "/signatures.json").value();
  EXPECT_THAT(model_versions(exports), ElementsAre(10000000000));
}

TEST_F(StoreRun, AnExportThatFailsLeavesNothing) {
  Estimator estimator(two_layers, quiet_config(kRun), {{"optimizer", "sgd"}});
  estimator.train(shuffled_batches(64, 8), {.max_steps = 1});
  const auto receiver = raw_serving_input_receiver({{"x", {kFloat32, {testing::kFeatures}}}});
  for (int64_t at = 0; at < 3; ++at) {
    memory_store().set_plan({.fail_at = at});
    EXPECT_EQ(error_of([&] { estimator.export_model(kRun + "/export", receiver); }).kind(),
              ErrorKind::kUnavailable)
        << at;
    memory_store().set_plan({});
    EXPECT_FALSE(file_systems().exists(kRun + "/export").value()) << at;
  }
}

// The run continues without two saves, and what it ends with is what it would have been.
TEST_F(StoreRun, SavesThatFailAreTriedAgain) {
  TempDirectory directory;
  train(45, quiet_config(directory / "m"));
  fail_saves_of({10, 20});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(45, quiet_config(kRun)).global_step, 45);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cannot save the checkpoint 'mem://runs/mine/model.ckpt-10'"));
  EXPECT_THAT(said, HasSubstr("1 of 2 allowed failures in a row"));
  EXPECT_THAT(said, HasSubstr("2 of 2 allowed failures in a row"));
  EXPECT_THAT(said, HasSubstr("the checkpoints up to model.ckpt-0 are untouched"));
  EXPECT_THAT(saved_steps(), ElementsAre(0, 30, 40, 45));
  EXPECT_EQ(testing::largest_difference(testing::latest(kRun), testing::latest(directory / "m")),
            0);
}

// Nor does a run end with what it would tell an evaluator, or hear from one.
TEST_F(StoreRun, WordsOfEvaluatorsThatCannotBeReadDoNotEndIt) {
  // A new run reads the entries that exist.
  memory_store().set_plan(
      {.fail_from = 1, .writes_only = false, .only = [](const std::string& path) {
         return path.starts_with("mem://runs/mine/evaluations") && !path.ends_with(".jsonl");
       }});
  ::testing::internal::CaptureStderr();
  Estimator estimator(two_layers, quiet_config(kRun), {{"optimizer", "sgd"}});
  const auto result =
      train_and_evaluate(estimator, {.input_fn = shuffled_batches(64, 8), .max_steps = 20},
                         std::vector<EvalSpec>{{.input_fn = [] { return examples(8).batch(8); }}});
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.training.global_step, 20);
  EXPECT_EQ(result.evaluations.size(), 1u);
  EXPECT_THAT(said, HasSubstr("an evaluator that comes later evaluates this step again"));
}

TEST_F(StoreRun, OneSaveTooManyEndsIt) {
  fail_saves_of({10, 20, 30});
  const Error error = error_of([&] { train(60, quiet_config(kRun)); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_NE(exit_code(error.kind()), 0);
  EXPECT_THAT(error.message(), HasSubstr("3 saves in a row failed, and no more may; the last: "
                                         "cannot save the checkpoint"));
  EXPECT_THAT(error.hint(), HasSubstr("RunConfig.max_failed_saves"));
  EXPECT_THAT(saved_steps(), ElementsAre(0)) << "the last good one stays good";
  fail_saves_of({10});
  RunConfig strict = quiet_config(kRun);
  strict.max_failed_saves = 0;
  EXPECT_THAT(error_of([&] { train(60, strict); }).message(),
              HasSubstr("cannot save the checkpoint 'mem://runs/mine/model.ckpt-10'"));
  memory_store().set_plan({});
  EXPECT_EQ(train(60, quiet_config(kRun)).global_step, 60);
}

// The last save is what all was done for.
TEST_F(StoreRun, TheLastSaveMustNotFail) {
  fail_saves_of({20});
  const Error error = error_of([&] { train(20, quiet_config(kRun)); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("model.ckpt-20"));
  EXPECT_THAT(error.hint(), HasSubstr("the checkpoints up to model.ckpt-10 are untouched"));
  EXPECT_FALSE(read_run_end(kRun));
}

TEST_F(StoreRun, TheFirstSaveShowsThatItCanBeWritten) {
  memory_store().set_plan({.fail_from = 0, .kind = ErrorKind::kInvalidArgument});
  EXPECT_THAT(error_of([&] { train(20, quiet_config(kRun)); }).message(),
              HasSubstr("cannot write checkpoints to model_dir 'mem://runs/mine'"));
}

// Replicas of several threads learn from the chief that a save failed, and stay in step.
TEST_F(StoreRun, ReplicasAgreeOnAFailedSave) {
  fail_saves_of({10});
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(25, quiet_config(kRun, distribute::mirrored({.replicas = 2}))).global_step, 25);
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_THAT(saved_steps(), ElementsAre(0, 20, 25));
}

// On a disk a failed save ends the run, unless the run is told to go on.
TEST_F(StoreRun, ADiskIsAsStrictAsItIsTold) {
  TempDirectory directory;
  memory_store();
  class Fails : public Hook {
   public:
    explicit Fails(std::string folder) : folder_(std::move(folder)) {}
    // A folder in the place of the file makes one save fail.
    void before_save(int64_t step) override {
      const std::string in_the_way = folder_ + "/model.ckpt-10.safetensors/x";
      if (step == 10) local_file_system().make_directories(in_the_way).value();
      if (step == 20) local_file_system().remove_tree(directory_of(in_the_way)).value();
    }

   private:
    const std::string folder_;
  };
  const auto run = [&](const std::string& name, std::optional<int64_t> may_fail) {
    RunConfig config = quiet_config(directory / name);
    config.max_failed_saves = may_fail;
    return Estimator(two_layers, config)
        .train(shuffled_batches(64, 8),
               {.max_steps = 25, .hooks = {std::make_shared<Fails>(directory / name)}});
  };
  EXPECT_THAT(error_of([&] { run("strict", std::nullopt); }).message(), HasSubstr("model.ckpt-10"));
  EXPECT_EQ(run("patient", 1).global_step, 25);
}

}  // namespace
}  // namespace muster::inline v0_1
