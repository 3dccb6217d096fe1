// What callbacks write into a store that fails now and then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"

namespace muster::inline v0_1::keras {
namespace {

using testing::compiled;
using testing::difference;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::rows_of;
using testing::Told;
using testing::Weights;
using testing::weights_of;

// What fails between the first save and the last is tried again.
class StoreCallbacks : public ::testing::Test {
 protected:
  StoreCallbacks() { memory_store().clear(); }
  ~StoreCallbacks() override { memory_store().clear(); }

  // Behind these epochs, from 0, nothing can be written whose name has this in it.
  struct Fails : Callback {
    Fails(std::vector<int64_t> in, std::string what, bool all_the_same)
        : epochs(std::move(in)), name(std::move(what)), done(all_the_same) {}
    void on_epoch_begin(int64_t epoch) override {
      const bool fails = std::ranges::find(epochs, epoch) != epochs.end();
      memory_store().set_plan(
          {.fail_from = fails ? 0 : -1,
           .only = [what = name](
                       const std::string& path) { return path.find(what) != std::string::npos; },
           .loses_answers = done});
    }
    void on_train_end(const Logs& /*logs*/) override { memory_store().set_plan({}); }
    const std::vector<int64_t> epochs;
    const std::string name;
    const bool done;
  };
  // Ends the program where fit() has made all epochs, before callbacks hear of it.
  struct KilledAtTheEnd : Callback {
    void on_train_end(const Logs& /*logs*/) override {
      memory_store().set_plan({});
      throw std::runtime_error("killed");
    }
  };
  // Fails says when a backup fails, so it is written then.
  static std::shared_ptr<Callback> backup(bool asynchronous = false) {
    return std::make_shared<BackupAndRestore>(
        "mem://keras/backup", BackupAndRestoreOptions{.asynchronous = asynchronous});
  }
  static History fit(Model& model, const std::vector<int64_t>& failing, const std::string& what,
                     std::vector<std::shared_ptr<Callback>> callbacks, int64_t epochs = 5,
                     bool done = false) {
    callbacks.insert(callbacks.begin(), std::make_shared<Fails>(failing, what, done));
    ::testing::internal::CaptureStderr();
    try {
      const History history =
          model.fit(rows_of(20).batch(10), {.epochs = epochs, .callbacks = callbacks});
      said() = ::testing::internal::GetCapturedStderr();
      return history;
    } catch (...) {
      said() = ::testing::internal::GetCapturedStderr();
      memory_store().set_plan({});
      throw;
    }
  }
  static std::string& said() {
    static std::string text;
    return text;
  }
};

TEST_F(StoreCallbacks, ModelCheckpointTriesAgain) {
  for (const bool weights_only : {true, false}) {
    memory_store().clear();
    const std::string path = weights_only ? "mem://keras/w.safetensors" : "mem://keras/model";
    const auto saves = [&] {
      return std::make_shared<ModelCheckpoint>(
          path, ModelCheckpointOptions{.save_weights_only = weights_only});
    };
    for (const std::vector<int64_t>& failing :
         {std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 3, 4}}) {
      Model model = compiled();
      fit(model, failing, "mem://keras", {saves()});
      EXPECT_THAT(said(), HasSubstr("1 of 2 allowed failures in a row"));
      // Also where the last one failed: it is made at the end.
      Model other = compiled();
      other.build({4});
      weights_only ? (void)other.load_weights(path) : other.load(path);
      EXPECT_EQ(difference(weights_of(other), weights_of(model)), 0);
    }
    Model model = compiled();
    const Error error = error_of([&] { fit(model, {1, 2, 3}, "mem://keras", {saves()}); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.message(), HasSubstr("3 saves in a row failed"));
    EXPECT_THAT(error.hint(), HasSubstr("ModelCheckpointOptions.max_failed_saves"));
    EXPECT_EQ(error_of([&] { fit(model, {0}, "mem://keras", {saves()}); }).kind(),
              ErrorKind::kUnavailable)
        << "the first shows that it can be written";
  }
}

// What could not be saved is not the best that is there: a later one that beats what is, is saved.
TEST_F(StoreCallbacks, TheBestIsThatOfThoseThatAreSaved) {
  const auto values = [] { return std::make_shared<Told>(std::vector<double>{5, 1, 4, 6, 6}); };
  const auto weights = std::make_shared<Weights>();
  Model model = compiled();
  fit(model, {1}, "mem://keras",
      {values(), weights,
       std::make_shared<ModelCheckpoint>(
           "mem://keras/w.safetensors",
           ModelCheckpointOptions{
               .monitor = "val_told_loss", .save_best_only = true, .save_weights_only = true})});
  Model other = compiled();
  other.build({4});
  other.load_weights("mem://keras/w.safetensors");
  EXPECT_EQ(difference(weights_of(other), weights->of_epochs[2]), 0);
}

TEST_F(StoreCallbacks, CSVLoggerBringsAllLinesLater) {
  for (const std::vector<int64_t>& failing :
       {std::vector<int64_t>{1, 2}, std::vector<int64_t>{1, 3, 4}}) {
    Model model = compiled();
    const History history =
        fit(model, failing, "log.csv", {std::make_shared<CSVLogger>("mem://keras/log.csv")});
    EXPECT_EQ(file_systems().read_file("mem://keras/log.csv").value(), history.to_csv());
  }
  Model model = compiled();
  const Error error = error_of([&] {
    fit(model, {1}, "log.csv",
        {std::make_shared<CSVLogger>("mem://keras/log.csv", ",", false, /*max_failed_saves=*/0)});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
}

// What was not saved at the end of a run that was killed there, is by the next.
TEST_F(StoreCallbacks, WhatWasNotSavedIsByTheRunThatGoesOn) {
  const auto callbacks = [&](bool killed) {
    std::vector<std::shared_ptr<Callback>> all{
        std::make_shared<ModelCheckpoint>("mem://keras/out/w.safetensors",
                                          ModelCheckpointOptions{.save_weights_only = true}),
        std::make_shared<CSVLogger>("mem://keras/out/log.csv"), backup()};
    if (killed) all.insert(all.begin(), std::make_shared<KilledAtTheEnd>());
    return all;
  };
  std::map<std::string, Tensor> last;
  {
    Model first = compiled();
    EXPECT_THROW(fit(first, {3, 4}, "/out/", callbacks(true)), std::exception);
    last = weights_of(first);
  }
  Model second = compiled();
  second.build({4});
  const History history = fit(second, {}, "", callbacks(false));
  EXPECT_EQ(file_systems().read_file("mem://keras/out/log.csv").value(), history.to_csv());
  Model other = compiled();
  other.build({4});
  other.load_weights("mem://keras/out/w.safetensors");
  EXPECT_THAT(said(), Not(HasSubstr("val_loss"))) << "nobody looks for the best";
  EXPECT_EQ(difference(weights_of(second), last), 0);
  EXPECT_EQ(difference(weights_of(other), last), 0);
}

// A backup may be there whose save failed: the answer got lost. It has all it needs.
TEST_F(StoreCallbacks, ABackupWhoseAnswerIsLostHasItsTensors) {
  const auto callbacks = [&](bool killed) {
    std::vector<std::shared_ptr<Callback>> all{
        std::make_shared<Told>(std::vector<double>{1, 5, 5, 5, 5}),
        std::make_shared<EarlyStopping>(EarlyStoppingOptions{
            .monitor = "val_told_loss", .patience = 4, .restore_best_weights = true}),
        backup()};
    if (killed) all.insert(all.begin(), std::make_shared<KilledAtTheEnd>());
    return all;
  };
  Model whole = compiled();
  fit(whole, {}, "", callbacks(false));
  memory_store().clear();
  {
    Model first = compiled();
    EXPECT_THROW(fit(first, {2}, "backup/checkpoint", callbacks(true), /*epochs=*/3, /*done=*/true),
                 std::exception);
    EXPECT_THAT(said(), HasSubstr("1 of 2 allowed failures in a row"));
  }
  Model second = compiled();
  fit(second, {}, "", callbacks(false));
  EXPECT_EQ(difference(weights_of(whole), weights_of(second)), 0);
}

// The run continues without a backup; killed then, it continues from the one before.
TEST_F(StoreCallbacks, BackupAndRestoreTriesAgain) {
  struct Killed : Callback {
    void on_epoch_begin(int64_t epoch) override {
      if (epoch == 3) throw std::runtime_error("killed");
    }
  };
  const std::vector<double> told{5, 3, 2, 1, 1, 1};
  const auto callbacks = [&](bool killed) {
    // EarlyStopping keeps tensors next to the backup.
    std::vector<std::shared_ptr<Callback>> all{
        std::make_shared<Told>(told),
        std::make_shared<EarlyStopping>(EarlyStoppingOptions{
            .monitor = "val_told_loss", .patience = 4, .restore_best_weights = true}),
        backup()};
    if (killed) all.push_back(std::make_shared<Killed>());
    return all;
  };
  Model whole = compiled();
  fit(whole, {}, "", callbacks(false));
  for (const std::string what : {"model.ckpt-", "callbacks-"}) {
    memory_store().clear();
    {
      Model first = compiled();
      EXPECT_THROW(fit(first, {1, 2}, what, callbacks(true)), std::exception);
      EXPECT_THAT(said(), HasSubstr("2 of 2 allowed failures in a row"));
    }
    const std::vector<std::string> left = memory_store().objects();
    EXPECT_EQ(std::ranges::count_if(
                  left, [](const auto& name) { return name.ends_with(".safetensors"); }),
              2)
        << "the backup and its tensors, and nothing of those that failed";
    Model second = compiled();
    const History history = fit(second, {}, "", callbacks(false));
    EXPECT_THAT(history.epoch, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_EQ(difference(weights_of(whole), weights_of(second)), 0) << what;
  }
  memory_store().clear();
  Model model = compiled();
  const Error error = error_of([&] { fit(model, {1, 2, 3}, "model.ckpt-", callbacks(false)); });
  EXPECT_THAT(error.hint(), HasSubstr("max_failed_saves"));
}

// The same where a thread writes the backups: those of steps 4 and 6 fail.
TEST_F(StoreCallbacks, ABackupThatAThreadWritesIsTriedAgain) {
  struct Killed : Callback {
    void on_epoch_begin(int64_t epoch) override {
      if (epoch == 3) throw std::runtime_error("killed");
    }
  };
  const auto train = [](bool killed) {
    std::vector<std::shared_ptr<Callback>> callbacks{
        std::make_shared<Told>(std::vector<double>{5, 3, 2, 1, 1, 1}),
        std::make_shared<EarlyStopping>(EarlyStoppingOptions{
            .monitor = "val_told_loss", .patience = 4, .restore_best_weights = true}),
        backup(/*asynchronous=*/true)};
    if (killed) callbacks.push_back(std::make_shared<Killed>());
    Model model = compiled();
    model.fit(rows_of(20).batch(10), {.epochs = 5, .callbacks = callbacks});
    return weights_of(model);
  };
  const auto fail = [](const std::vector<std::string>& names, std::set<std::thread::id>* threads) {
    memory_store().set_plan({.fail_from = 0, .only = [=](const std::string& path) {
                               if (threads != nullptr && path.find("ckpt-4") != std::string::npos)
                                 threads->insert(std::this_thread::get_id());
                               return std::ranges::any_of(names, [&](const std::string& name) {
                                 return path.find(name) != std::string::npos;
                               });
                             }});
  };
  std::set<std::thread::id> threads;
  fail({}, &threads);
  const std::map<std::string, Tensor> whole = train(false);
  EXPECT_FALSE(threads.empty());
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  for (const std::string what : {"model.ckpt-", "callbacks-"}) {
    memory_store().clear();
    fail({what + "4.", what + "6."}, nullptr);
    ::testing::internal::CaptureStderr();
    EXPECT_THROW(train(true), std::exception);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("2 of 2 allowed failures in a row"));
    EXPECT_THAT(memory_store().objects(),
                ::testing::IsSupersetOf({HasSubstr("model.ckpt-2."), HasSubstr("callbacks-2.")}));
    EXPECT_THAT(memory_store().objects(),
                Not(::testing::Contains(::testing::AnyOf(HasSubstr("-4."), HasSubstr("-6.")))));
    fail({}, nullptr);
    EXPECT_EQ(difference(train(false), whole), 0) << what;
  }
  memory_store().clear();
  fail({"model.ckpt-4.", "model.ckpt-6.", "model.ckpt-8."}, nullptr);
  EXPECT_THAT(error_of([&] { train(false); }).hint(), HasSubstr("max_failed_saves"));
}

}  // namespace
}  // namespace muster::inline v0_1::keras
