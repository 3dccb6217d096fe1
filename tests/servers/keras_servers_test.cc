// A model on parameter servers trains as one without them, by fit() and as an Estimator.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/testing/memory_store.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/model_to_estimator.h"
#include "muster/keras/testing/test_models.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dropout.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/held_save.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::keras {
namespace {

using testing::alone;
using testing::compiled;
using testing::difference;
using ::testing::HasSubstr;
using testing::rows_of;
using testing::settings;
using testing::two_layers;
using testing::weights_of;

TEST(ModelOnServers, AsAnEstimatorComputesWhatFitDoes) {
  constexpr int64_t epochs = 2;
  const Dataset data = rows_of(70).shuffle(70).batch(16);
  for (const char* optimizer : {"sgd", "adam"}) {
    Model trained = compiled(nullptr, optimizer);
    trained.fit(data, {.epochs = epochs});
    const muster::testing::LocalCluster cluster(1, /*chief=*/true, /*servers=*/1);
    const TempDirectory directory;
    muster::testing::run_ranks(2, [&](int task) {
      Model described = compiled(nullptr, optimizer);
      Estimator estimator = model_to_estimator(
          described,
          {.model_dir = directory.path(),
           .train_distribute = distribute::parameter_server(),
           .environment = task == 0 ? cluster.environment(0) : cluster.server_environment(0)});
      estimator.train([&] { return data.repeat(epochs); });
      if (task != 0) return;
      for (const auto& [name, value] : trained.get_weights())
        EXPECT_TRUE(estimator.get_variable_value(name).equal(value)) << name;
    });
  }
}

// A chief, workers and a server, each a thread that makes the same calls.
void run_served(int workers, const std::function<void(int task, Model& model)>& program,
                const std::string& optimizer = "sgd", const Layer& layer = two_layers()) {
  const muster::testing::LocalCluster cluster(1 + workers, /*chief=*/true, /*servers=*/1);
  muster::testing::run_ranks(workers + 2, [&](int task) {
    Model model(layer, {.strategy = distribute::parameter_server(),
                        .seed = 3,
                        .environment = task <= workers ? cluster.environment(task)
                                                       : cluster.server_environment(0)});
    model.compile(settings(optimizer));
    program(task, model);
  });
}

Layer three_layers() {
  return Sequential(
      {Dense(8, {.activation = activations::tanh}), BatchNormalization(), Dropout(0.3), Dense(2)});
}

std::shared_ptr<Callback> backups_in(const std::string& folder) {
  return std::make_shared<BackupAndRestore>(folder);
}

// The chief trains nothing itself: it and one worker are what a process is alone.
TEST(FitOnServers, OneWorkerHasTheBitsOfFitWithoutServers) {
  const Dataset data = rows_of(70).shuffle(70).batch(16);
  const Dataset test = rows_of(30, 500).batch(8);
  for (const char* optimizer : {"sgd", "adam"}) {
    Model alone_model(three_layers(), alone());
    alone_model.compile(settings(optimizer));
    const History expected = alone_model.fit(data, {.epochs = 3, .validation_data = test});
    const TempDirectory folder;
    run_served(
        /*workers=*/1,
        [&](int task, Model& model) {
          const History history = model.fit(
              data,
              {.epochs = 3, .validation_data = test, .callbacks = {backups_in(folder / "backup")}});
          EXPECT_EQ(model.is_chief(), task == 0);
          if (task != 0) {
            EXPECT_TRUE(history.epoch.empty());
            return;
          }
          EXPECT_EQ(model.step(), 15);
          EXPECT_EQ(history.epoch, expected.epoch);
          EXPECT_EQ(history.history, expected.history);
          EXPECT_EQ(difference(weights_of(model), weights_of(alone_model)), 0) << optimizer;
          EXPECT_EQ(model.evaluate(test), alone_model.evaluate(test));
        },
        optimizer, three_layers());
    EXPECT_FALSE(local_file_system().exists(folder / "backup").value());
  }
}

TEST(FitOnServers, StepsAreThoseOfAllWorkersAndTheChiefHearsOfEach) {
  struct Heard : Callback {
    std::vector<int64_t> batches;
    int64_t rows = 0;
    void on_train_batch_end(const BatchInfo& info) override {
      batches.push_back(info.batch);
      rows += info.rows;
    }
  };
  const TempDirectory folder;
  run_served(/*workers=*/2, [&](int task, Model& model) {
    const auto heard = std::make_shared<Heard>();
    const History history = model.fit(rows_of(200).shuffle(200).repeat().batch(20),
                                      {.epochs = 4,
                                       .steps_per_epoch = 15,
                                       .validation_data = rows_of(60, 500).batch(25),
                                       .callbacks = {heard, backups_in(folder / "backup")}});
    // What others than the chief are asked for is nothing, as on workers in step.
    const Logs result = model.evaluate(rows_of(60, 500).batch(25));
    const Tensor predicted = model.predict(testing::points(7).x);
    model.save_weights(folder / ("weights-" + std::to_string(task) + ".safetensors"));
    model.save(folder / ("model-" + std::to_string(task)));
    EXPECT_EQ(heard->batches.size(), task == 0 ? 60u : 0u);
    EXPECT_EQ(predicted.defined(), task == 0);
    if (task != 0) {
      EXPECT_TRUE(result.empty());
      EXPECT_TRUE(model.get_weights().empty());
      return;
    }
    EXPECT_EQ(heard->rows, 60 * 20);
    EXPECT_EQ(heard->batches[15], 0);
    EXPECT_EQ(model.step(), 60);
    EXPECT_LT(history["loss"].back(), history["loss"].front());
    EXPECT_EQ(result.at("loss"), history["val_loss"].back());
    EXPECT_EQ(result.at("accuracy"), history["val_accuracy"].back());
  });
  EXPECT_TRUE(local_file_system().exists(folder / "weights-0.safetensors").value());
  for (const char* other : {"weights-1.safetensors", "weights-2.safetensors", "model-1", "model-3"})
    EXPECT_FALSE(local_file_system().exists(folder / other).value()) << other;
  // Slots and step are there as well.
  Model loaded = compiled(nullptr, "sgd");
  loaded.build({4});
  loaded.load(folder / "model-0");
  EXPECT_EQ(loaded.step(), 60);
}

// They ask for the weights in the middle of the run, and end it.
TEST(FitOnServers, CallbacksSaveStopAndGiveTheBestWeightsBack) {
  const TempDirectory folder;
  run_served(/*workers=*/2, [&](int task, Model& model) {
    const auto stopping = std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "val_loss", .patience = 1, .restore_best_weights = true});
    const History history = model.fit(
        rows_of(64).batch(16),
        {.epochs = 50,
         .validation_data = rows_of(32, 500).batch(16),
         .callbacks = {
             std::make_shared<LambdaCallback>(LambdaCallback::Functions{
                 .on_epoch_end =
                     [](int64_t epoch, Logs& logs) {
                       // As if it got worse from the third epoch on.
                       if (epoch >= 2) logs["val_loss"] = 10 + static_cast<double>(epoch);
                     }}),
             stopping,
             std::make_shared<ModelCheckpoint>(folder / "epoch-{epoch}.safetensors",
                                               ModelCheckpointOptions{.save_weights_only = true}),
             std::make_shared<ModelCheckpoint>(folder / "step",
                                               ModelCheckpointOptions{.save_freq = 3}),
             std::make_shared<CSVLogger>(folder / "log.csv"),
             std::make_shared<TensorBoard>(folder / "logs"), backups_in(folder / "backup")}});
    if (task != 0) return;
    EXPECT_EQ(history.epoch, (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(stopping->best_epoch(), 1);
    const auto restored = weights_of(model);
    model.load_weights(folder / "epoch-2.safetensors");
    EXPECT_EQ(difference(restored, weights_of(model)), 0);
    model.load(folder / "step");
    EXPECT_GE(model.step(), 12);
    EXPECT_TRUE(local_file_system().exists(folder / "log.csv").value());
  });
}

// The data begins again then; steps and epochs go on.
TEST(FitOnServers, ARunThatFailedGoesOnFromItsBackup) {
  struct Failing : Callback {
    explicit Failing(int64_t step) : step(step) {}
    void on_train_batch_end(const BatchInfo&) override {
      if (model().step() == step) throw std::runtime_error("it failed");
    }
    const int64_t step;
  };
  const Dataset data = rows_of(50).batch(10);
  for (const std::optional<int64_t> save_freq : {std::optional<int64_t>(2), {}}) {
    const TempDirectory folder;
    const auto fit = [&](Model& model, std::optional<int64_t> failing) {
      FitOptions options{.epochs = 4,
                         .validation_data = rows_of(20, 99).batch(8),
                         .callbacks = {std::make_shared<BackupAndRestore>(
                             folder / "backup", BackupAndRestoreOptions{.save_freq = save_freq})}};
      if (failing) options.callbacks.push_back(std::make_shared<Failing>(*failing));
      return model.fit(data, options);
    };
    run_served(/*workers=*/2, [&](int, Model& model) {
      EXPECT_THROW(fit(model, 13), std::exception);  // in all tasks
    });
    EXPECT_TRUE(local_file_system().exists(folder / "backup").value());
    run_served(/*workers=*/2, [&](int task, Model& model) {
      const History history = fit(model, {});
      if (task != 0) return;
      EXPECT_EQ(history.epoch, (std::vector<int64_t>{0, 1, 2, 3}));
      EXPECT_EQ(history["val_loss"].size(), 4u);
      EXPECT_EQ(model.step(), 20);
    });
  }
}

// As without servers: what fails between the first backup and the end is tried again.
TEST(FitOnServers, ABackupThatFailsIsTriedAgain) {
  MemoryStore& store = memory_store();
  const std::string backup = "mem://keras/served";
  for (const std::set<int64_t>& failing : {std::set<int64_t>{1, 2}, std::set<int64_t>{1, 3, 4}}) {
    store.clear();
    const bool removed = failing.contains(4);  // one that is to stay must not fail
    store.set_plan({.fail_from = 0, .only = [&](const std::string& path) {
                      return std::ranges::any_of(failing, [&](int64_t epoch) {
                        const std::string name = fmt::format("model.ckpt-{}.", 5 * (epoch + 1));
                        return path.find(name) != std::string::npos;
                      });
                    }});
    ::testing::internal::CaptureStderr();
    run_served(/*workers=*/1, [&](int task, Model& model) {
      const History history =
          model.fit(rows_of(50).batch(10),
                    {.epochs = 5,
                     .callbacks = {std::make_shared<BackupAndRestore>(
                         backup, BackupAndRestoreOptions{.delete_checkpoint = removed})}});
      if (task != 0) return;
      EXPECT_EQ(history.epoch.size(), 5u);
      EXPECT_EQ(model.step(), 25);
    });
    log::flush();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("1 of 2 allowed failures in a row"));
    EXPECT_EQ(CheckpointManager(backup).latest().value_or(""),
              removed ? "" : backup + "/model.ckpt-25");
  }
  store.clear();
}

// Without a thread fit() would wait for ever.
TEST(FitOnServers, StepsAreMadeWhileABackupIsWritten) {
  const std::string backup = "mem://keras/held";
  const CheckpointManager backups(backup);
  struct Watching : Callback {
    std::string name() const override { return "watching"; }
    std::map<std::string, Tensor> tensors() const override { return {{"seen", torch::ones({2})}}; }
    void on_train_batch_end(const BatchInfo&) override { seen(model().step()); }
    std::function<void(int64_t step)> seen;
  };
  muster::testing::HeldSave held(5);
  run_served(/*workers=*/1, [&](int task, Model& model) {
    const auto watching = std::make_shared<Watching>();
    watching->seen = [&](int64_t step) {
      if (step < 8) return;
      if (step == 8) EXPECT_EQ(backups.latest(), backup + "/model.ckpt-0");
      held.open();
    };
    const History history = model.fit(
        rows_of(50).batch(10),
        {.epochs = 3,
         .callbacks = {watching,
                       std::make_shared<BackupAndRestore>(
                           backup, BackupAndRestoreOptions{.delete_checkpoint = false})}});
    if (task == 0) EXPECT_EQ(history.epoch.size(), 3u);
  });
  EXPECT_EQ(backups.latest(), backup + "/model.ckpt-15");
  std::vector<std::string> beside;
  for (const std::string& name : memory_store().objects()) {
    if (name.find("callbacks-") != std::string::npos) beside.push_back(name);
  }
  EXPECT_EQ(beside, std::vector<std::string>{backup + "/callbacks-15.safetensors"});
}

// Slots that no file has begin as they do anywhere.
TEST(FitOnServers, BeginsWithTheWeightsTheModelHas) {
  const Dataset data = rows_of(48).batch(16);
  const TempDirectory folder;
  Model first = compiled(nullptr, "sgd");
  first.fit(data, {.epochs = 2});
  first.save_weights(folder / "first.safetensors");
  Model expected = compiled(nullptr, "sgd");
  expected.build({4});
  expected.load_weights(folder / "first.safetensors");
  expected.fit(data, {.epochs = 2});
  run_served(/*workers=*/1, [&](int task, Model& model) {
    model.build({4});
    model.load_weights(folder / "first.safetensors");
    model.fit(data, {.epochs = 2, .callbacks = {backups_in(folder / "backup")}});
    if (task != 0) return;
    EXPECT_EQ(difference(weights_of(model), weights_of(expected)), 0);
  });
}

TEST(FitOnServers, DataThatEndsEarlyEndsTheRun) {
  const TempDirectory folder;
  run_served(/*workers=*/2, [&](int task, Model& model) {
    const History history = model.fit(
        rows_of(70).batch(10),
        {.epochs = 3, .steps_per_epoch = 5, .callbacks = {backups_in(folder / "backup")}});
    if (task != 0) return;
    EXPECT_EQ(history.epoch.size(), 2u);
    EXPECT_EQ(model.step(), 7);
  });
}

TEST(FitOnServers, RefusesWhatServersCannotDo) {
  const muster::testing::LocalCluster cluster(2, /*chief=*/true, /*servers=*/1);
  const auto message = [&](const Dataset& data, FitOptions options, CompileOptions compile) {
    Model model(two_layers(), {.strategy = distribute::parameter_server(),
                               .environment = cluster.environment(0)});
    model.compile(compile);
    return error_of([&] { model.fit(data, options); }).message();
  };
  const Dataset data = rows_of(20).batch(10);
  const auto unknown = rows_of(20).filter([](const Element&) { return true; }).batch(10);
  EXPECT_THAT(message(data, {.callbacks = {std::make_shared<ReduceLROnPlateau>()}}, settings()),
              HasSubstr("not supported: ReduceLROnPlateau on parameter servers"));
  EXPECT_THAT(message(data,
                      {.callbacks = {std::make_shared<LearningRateScheduler>(
                           [](int64_t, double rate) { return rate; })}},
                      settings()),
              HasSubstr("not supported: LearningRateScheduler on parameter servers"));
  struct Warms : Callback {
    CallbackNeeds needs() const override { return {.sets_learning_rate = true}; }
  };
  EXPECT_THAT(message(data, {.callbacks = {std::make_shared<Warms>()}}, settings()),
              HasSubstr("not supported: Warms on parameter servers"));
  EXPECT_THAT(message(unknown, {}, settings()), HasSubstr("without steps_per_epoch"));
  CompileOptions accumulating = settings();
  accumulating.accumulate_steps = 2;
  EXPECT_THAT(message(data, {}, accumulating), HasSubstr("accumulate_steps of 2"));
  Model model(two_layers(),
              {.strategy = distribute::parameter_server(), .environment = cluster.environment(0)});
  model.compile(settings());
  EXPECT_THAT(
      error_of([&] { model.train_on_batch(testing::points(4).x, testing::points(4).y); }).message(),
      HasSubstr("not supported: train_on_batch() on parameter servers"));
}

// Without a cluster the same program trains in one process.
TEST(FitOnServers, AProcessAloneTrainsWithoutThem) {
  const Dataset data = rows_of(40).batch(10);
  Model plain = compiled(nullptr, "sgd");
  plain.fit(data, {.epochs = 2});
  Model model = compiled(distribute::parameter_server(), "sgd");
  model.fit(data);
  model.fit(data, {.epochs = 2, .initial_epoch = 1});
  EXPECT_EQ(difference(weights_of(model), weights_of(plain)), 0);
}

}  // namespace
}  // namespace muster::inline v0_1::keras
