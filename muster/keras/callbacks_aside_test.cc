// Saves of ModelCheckpoint that a thread writes while fit() makes steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::keras {
namespace {

using testing::compiled;
using testing::difference;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::rows_of;
using testing::Told;
using testing::Weights;
using testing::weights_of;

using Callbacks = std::vector<std::shared_ptr<Callback>>;

struct KilledBefore : Callback {
  explicit KilledBefore(int64_t epoch) : epoch(epoch) {}
  void on_epoch_begin(int64_t begins) override {
    if (begins == epoch) throw std::runtime_error("killed");
  }
  const int64_t epoch;
};

class AsideCallbacks : public ::testing::Test {
 protected:
  AsideCallbacks() { memory_store().clear(); }
  ~AsideCallbacks() override { memory_store().clear(); }

  // Two steps an epoch.
  static std::map<std::string, Tensor> fit(const Callbacks& callbacks, int64_t epochs = 5) {
    Model model = compiled();
    model.fit(rows_of(20).batch(10),
              {.epochs = epochs, .callbacks = callbacks, .verbose = Verbose::kSilent});
    return weights_of(model);
  }
  static std::shared_ptr<ModelCheckpoint> saves(const std::string& path,
                                                ModelCheckpointOptions options = {}) {
    options.save_weights_only = path.ends_with(".safetensors");
    return std::make_shared<ModelCheckpoint>(path, options);
  }
  static std::map<std::string, Tensor> in(const std::string& path) {
    Model model = compiled();
    model.build({4});
    path.ends_with(".safetensors") ? (void)model.load_weights(path) : model.load(path);
    return weights_of(model);
  }
  // The first `times` writes to a path with this in it fail.
  static void fail(const std::string& what, int times) {
    const auto left = std::make_shared<std::atomic<int>>(times);
    memory_store().set_plan({.fail_from = 0, .only = [=](const std::string& path) {
                               return path.find(what) != std::string::npos && (*left)-- > 0;
                             }});
  }
};

TEST_F(AsideCallbacks, FitMakesStepsWhileAThreadWrites) {
  struct Opens : Callback {
    void on_train_batch_end(const BatchInfo&) override {
      if (model().step() == 5) gate.set_value();
    }
    std::promise<void> gate;
  };
  for (const std::string path :
       {"mem://aside/w-{epoch}.safetensors", "mem://aside/model-{epoch}"}) {
    memory_store().clear();
    const auto opens = std::make_shared<Opens>();
    const std::shared_future<void> opened = opens->gate.get_future().share();
    std::atomic<bool> in_time = false;
    // What is written after step 4 takes until step 5 is made.
    memory_store().on_request([&](int64_t, const std::string& to) {
      constexpr auto kMost = std::chrono::seconds(20);
      const bool second = to.find("w-2.") != std::string::npos ||
                          (to.find("model-2/model.ckpt") != std::string::npos);
      if (second) in_time = opened.wait_for(kMost) == std::future_status::ready;
    });
    const auto weights = std::make_shared<Weights>();
    fit({weights, opens, saves(path, {.asynchronous = true})}, 3);
    memory_store().on_request({});
    EXPECT_TRUE(in_time);
    for (int epoch = 1; epoch <= 3; ++epoch) {
      std::string at = path;
      at.replace(at.find("{epoch}"), 7, std::to_string(epoch));
      EXPECT_EQ(difference(in(at), weights->of_epochs[static_cast<size_t>(epoch) - 1]), 0) << at;
    }
  }
}

// Of every two steps; the file has those of its step, and not of a later one.
TEST_F(AsideCallbacks, SavesOfBatchesHaveTheWeightsOfTheirStep) {
  struct Keeps : Callback {
    void on_train_batch_end(const BatchInfo&) override {
      of_steps[model().step()] = weights_of(model());
    }
    std::map<int64_t, std::map<std::string, Tensor>> of_steps;
  };
  const auto keeps = std::make_shared<Keeps>();
  fit({keeps, saves("mem://aside/w-{loss:.6f}.safetensors", {.save_freq = 3, .asynchronous = true}),
       saves("mem://aside/model", {.save_freq = 3, .asynchronous = true})});
  std::set<int64_t> steps;
  for (const std::string& name : memory_store().objects()) {
    if (name.find("/w-") == std::string::npos) continue;
    const int64_t step = read_checkpoint(file_systems(), name).global_step;
    steps.insert(step);
    EXPECT_EQ(difference(in(name), keeps->of_steps.at(step)), 0) << name;
  }
  EXPECT_THAT(steps, ElementsAre(3, 6, 9));
  EXPECT_EQ(difference(in("mem://aside/model"), keeps->of_steps.at(9)), 0);
}

// A callback of the program may read the file in on_epoch_end(), unless it allows the thread.
TEST_F(AsideCallbacks, OnlyWithoutCallbacksOfTheProgramByItself) {
  struct Mine : CSVLogger {
    using CSVLogger::CSVLogger;
  };
  const auto writes_aside = [](std::optional<bool> asynchronous, const Callbacks& others) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    memory_store().on_request([&](int64_t, const std::string& path) {
      const std::lock_guard lock(mutex);
      if (path.find("/w-") != std::string::npos) threads.insert(std::this_thread::get_id());
    });
    Callbacks all = others;
    all.push_back(saves("mem://aside/w-{epoch}.safetensors", {.asynchronous = asynchronous}));
    fit(all, 3);
    memory_store().on_request({});
    EXPECT_TRUE(threads.contains(std::this_thread::get_id())) << "the first";
    return threads.size() > 1;
  };
  const auto own = std::make_shared<CSVLogger>("mem://aside/log.csv");
  EXPECT_TRUE(writes_aside({}, {own, std::make_shared<EarlyStopping>()}));
  EXPECT_FALSE(writes_aside(false, {own}));
  const auto lambda = std::make_shared<LambdaCallback>(LambdaCallback::Functions{});
  EXPECT_FALSE(writes_aside({}, {own, lambda}));
  EXPECT_FALSE(writes_aside({}, {std::make_shared<Mine>("mem://aside/mine.csv")}));
  EXPECT_TRUE(writes_aside(true, {own, lambda}));
}

// Where one worker has such a callback, none lets a thread write.
TEST_F(AsideCallbacks, WorkersDecideAlike) {
  for (const bool reads : {false, true}) {
    const muster::testing::LocalCluster cluster(2, /*chief=*/false);
    std::mutex mutex;
    std::set<std::thread::id> threads;
    memory_store().on_request([&](int64_t, const std::string&) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    muster::testing::run_ranks(2, [&](int rank) {
      Model model(testing::two_layers(), {.strategy = distribute::multi_worker_mirrored(),
                                          .seed = 3,
                                          .environment = cluster.environment(rank)});
      model.compile(testing::settings());
      Callbacks callbacks{saves("mem://aside/w.safetensors")};
      if (reads && rank == 1)
        callbacks.push_back(std::make_shared<LambdaCallback>(LambdaCallback::Functions{}));
      model.fit(rows_of(20).batch(10),
                {.epochs = 4, .callbacks = callbacks, .verbose = Verbose::kSilent});
      const auto last = weights_of(model);
      if (rank != 0) return;
      EXPECT_EQ(difference(in("mem://aside/w.safetensors"), last), 0);
    });
    memory_store().on_request({});
    EXPECT_EQ(threads.size() > 1, !reads);
  }
}

TEST_F(AsideCallbacks, AnErrorOfTheThreadEndsFit) {
  for (const std::string epoch : {"2", "3"}) {
    fail("w-" + epoch + ".", 1);
    const Error error = error_of(
        [] { fit({saves("mem://aside/w-{epoch}.safetensors", {.max_failed_saves = 0})}, 3); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("w-" + epoch + ".")) << "of the last epoch too";
  }
}

TEST_F(AsideCallbacks, AFailedSaveIsMadeAgainAtTheEnd) {
  ::testing::internal::CaptureStderr();
  fail("w-5.", 1);
  const auto last = fit({saves("mem://aside/w-{epoch}.safetensors")});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("1 of 2 allowed failures in a row"));
  EXPECT_EQ(difference(in("mem://aside/w-5.safetensors"), last), 0);
}

// The values of the epochs; the second is the best, and is not written.
Callbacks best_of(const std::vector<double>& values, bool with_backup) {
  Callbacks all{std::make_shared<Told>(values),
                std::make_shared<ModelCheckpoint>("mem://aside/w-{epoch}.safetensors",
                                                  ModelCheckpointOptions{.monitor = "val_told_loss",
                                                                         .save_best_only = true,
                                                                         .save_weights_only = true,
                                                                         .asynchronous = true})};
  if (with_backup) all.push_back(std::make_shared<BackupAndRestore>("mem://aside/backup"));
  return all;
}

TEST_F(AsideCallbacks, WhatWasNotWrittenIsNotTheBest) {
  fail("w-2.", 1);
  fit(best_of({5, 1, 4, 6, 6}, false));
  EXPECT_THAT(memory_store().objects(),
              ElementsAre("mem://aside/w-1.safetensors", "mem://aside/w-3.safetensors"));
}

// The backup after epoch 2 was begun when its save was, and does not say that it is there.
TEST_F(AsideCallbacks, ABackupKnowsThatASaveFailed) {
  fail("w-2.", 1);
  Callbacks killed = best_of({5, 1, 4, 6, 6}, true);
  killed.push_back(std::make_shared<KilledBefore>(2));
  EXPECT_THROW(fit(killed), std::exception);
  memory_store().set_plan({});
  struct Began : Callback {
    void on_epoch_begin(int64_t epoch) override { epochs.push_back(epoch); }
    std::vector<int64_t> epochs;
  };
  Callbacks again = best_of({5, 1, 4, 6, 6}, true);
  const auto began = std::make_shared<Began>();
  again.push_back(began);
  fit(again);
  EXPECT_THAT(began->epochs, ElementsAre(2, 3, 4));
  EXPECT_THAT(memory_store().objects(),
              ElementsAre("mem://aside/w-1.safetensors", "mem://aside/w-3.safetensors"));
}

// Nor does a backup forget it where the callback had nothing to tell before.
TEST_F(AsideCallbacks, ASaveThatFailedIsMadeAgainByTheNextProcess) {
  const std::string path = "mem://aside/w-{epoch}.safetensors";
  const auto backs_up = [] { return std::make_shared<BackupAndRestore>("mem://aside/backup"); };
  fail("w-4.", 1);
  EXPECT_THROW(
      fit({saves(path, {.asynchronous = true}), backs_up(), std::make_shared<KilledBefore>(4)}),
      std::exception);
  memory_store().set_plan({});
  EXPECT_THAT(memory_store().objects(),
              ::testing::Not(::testing::Contains("mem://aside/w-4.safetensors")));
  Model model = compiled();
  model.build({4});
  model.fit(rows_of(20).batch(10), {.epochs = 4,
                                    .callbacks = {saves(path, {.asynchronous = true}), backs_up()},
                                    .verbose = Verbose::kSilent});
  EXPECT_THAT(memory_store().objects(), ::testing::Contains("mem://aside/w-4.safetensors"));
}

// A backup is never there before the save that it knows of.
TEST_F(AsideCallbacks, ABackupWaitsForTheSave) {
  std::mutex mutex;
  std::vector<std::string> begun;
  memory_store().on_request([&](int64_t, const std::string& path) {
    {
      const std::lock_guard lock(mutex);
      begun.push_back(path);
    }
    constexpr auto kForABackup = std::chrono::milliseconds(300);
    // Long enough for the thread of the backup, if that did not wait.
    if (path.find("w-2.") != std::string::npos) std::this_thread::sleep_for(kForABackup);
    if (path.find("model.ckpt-4.") == std::string::npos) return;
    EXPECT_THAT(memory_store().objects(), ::testing::Contains("mem://aside/w-2.safetensors"));
  });
  fit(best_of({5, 1, 4, 6, 6}, true));
  memory_store().on_request({});
  const auto first = [&](const std::string& what) {
    return std::ranges::find_if(
               begun, [&](const auto& path) { return path.find(what) != std::string::npos; }) -
           begun.begin();
  };
  EXPECT_LT(first("w-2."), first("model.ckpt-4."));
  EXPECT_LT(first("model.ckpt-4."), static_cast<ptrdiff_t>(begun.size()));
}

TEST_F(AsideCallbacks, TheNextSaveSaysThatItWaits) {
  memory_store().on_request([](int64_t, const std::string& path) {
    constexpr auto kToBeLogged = std::chrono::milliseconds(900);
    // Longer than the half second that the log passes over.
    if (path.find("w-2.") != std::string::npos) std::this_thread::sleep_for(kToBeLogged);
  });
  ::testing::internal::CaptureStderr();
  fit({saves("mem://aside/w-{epoch}.safetensors")}, 3);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("ModelCheckpoint('mem://aside/w-{epoch}.safetensors') at step 6 waits for "
                        "the checkpoint of step 4, which is still being written (wait 1 of this "
                        "run)"));
  EXPECT_THAT(memory_store().objects(), ::testing::SizeIs(3));
}

TEST_F(AsideCallbacks, AFitThatThrowsWaitsForTheThread) {
  memory_store().on_request([](int64_t, const std::string& path) {
    constexpr auto kForTheEnd = std::chrono::milliseconds(200);
    // Long enough for fit() to end, if that did not wait.
    if (path.find("w-2.") != std::string::npos) std::this_thread::sleep_for(kForTheEnd);
  });
  const auto checkpoint = saves("mem://aside/w-{epoch}.safetensors", {.asynchronous = true});
  EXPECT_THROW(fit({checkpoint, std::make_shared<KilledBefore>(2)}), std::exception);
  EXPECT_THAT(memory_store().objects(), ::testing::Contains("mem://aside/w-2.safetensors"));
}

// The second epoch is the best, and is not written, which nobody waits for.
TEST_F(AsideCallbacks, ASaveThatFailsAfterAnErrorIsLoggedAndIsNotTheBest) {
  for (const bool again : {false, true}) {
    memory_store().clear();
    fail("w-2.", 1);
    Callbacks killed = best_of({5, 1, 4, 6, 6}, false);
    std::shared_ptr<Callback> checkpoint = killed.back();
    killed.push_back(std::make_shared<KilledBefore>(2));
    ::testing::internal::CaptureStderr();
    EXPECT_THROW(fit(killed), std::exception);
    memory_store().set_plan({});
    if (again) fit({std::make_shared<Told>(std::vector<double>{4, 6}), checkpoint}, 2);
    killed.clear();
    checkpoint.reset();
    const std::string told = ::testing::internal::GetCapturedStderr();
    const std::string failed = "fit() ended before it could retry";
    EXPECT_THAT(told, HasSubstr(failed));
    EXPECT_EQ(told.find(failed), told.rfind(failed)) << told;
    if (again) {
      EXPECT_THAT(told, HasSubstr("val_told_loss improved from 5.0000 to 4.0000"));
    }
  }
}

// fit() in another process, which a signal ends in the middle of the second save, or not.
void fit_until_killed(const std::string& folder, bool killed) {
  struct Limits : Callback {
    void on_epoch_end(int64_t epoch, Logs&) override {
      if (epoch != 1) return;
      std::signal(SIGXFSZ, SIG_DFL);
      constexpr rlim_t kHalfOfIt = 512;  // bytes
      const rlimit half{kHalfOfIt, kHalfOfIt};
      if (::setrlimit(RLIMIT_FSIZE, &half) != 0) std::abort();
    }
  };
  Callbacks callbacks;
  if (killed) callbacks.push_back(std::make_shared<Limits>());
  ModelCheckpointOptions options{.save_weights_only = true, .asynchronous = true};
  callbacks.push_back(
      std::make_shared<ModelCheckpoint>(folder + "/w-{epoch}.safetensors", options));
  callbacks.push_back(std::make_shared<ModelCheckpoint>(folder + "/last.safetensors", options));
  callbacks.push_back(std::make_shared<BackupAndRestore>(folder + "/backup"));
  Model model = compiled();
  model.fit(rows_of(20).batch(10),
            {.epochs = 4, .callbacks = callbacks, .verbose = Verbose::kSilent});
}

TEST(KilledAsideDeathTest, ASaveIsWholeOrNotThereAndTheNextRunMakesIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The process that is killed runs this test from its begin, in the folder of this one.
  const char* const kFolder = "MUSTER_TEST_KILLED_FOLDER";
  const bool is_parent = std::getenv(kFolder) == nullptr;
  std::optional<TempDirectory> directory;
  if (is_parent) ::setenv(kFolder, (directory.emplace() / "killed").c_str(), 1);
  const std::string folder = std::getenv(kFolder);
  EXPECT_EXIT(fit_until_killed(folder, true), ::testing::KilledBySignal(SIGXFSZ), "");
  ::unsetenv(kFolder);
  const std::vector<std::string> left = local_file_system().list_directory(folder).value();
  EXPECT_TRUE(std::ranges::any_of(left, [](const std::string& name) {
    return name.starts_with(".w-2.safetensors") || name.starts_with(".last.safetensors");
  })) << "one was being written";
  EXPECT_FALSE(std::filesystem::exists(folder + "/w-2.safetensors"));
  EXPECT_EQ(read_checkpoint(file_systems(), folder + "/w-1.safetensors").global_step, 2);
  EXPECT_EQ(read_checkpoint(file_systems(), folder + "/last.safetensors").global_step, 2);
  EXPECT_THAT(CheckpointManager(folder + "/backup").all(), ElementsAre(HasSubstr("model.ckpt-2")))
      << "the next one would know of a save that is not there";
  fit_until_killed(folder, false);
  fit_until_killed(*directory / "whole", false);
  for (const std::string name : {"w-1", "w-2", "w-3", "w-4", "last"}) {
    const auto read = [&](const std::string& from) {
      return read_checkpoint(file_systems(), from + "/" + name + ".safetensors").tensors;
    };
    EXPECT_EQ(difference(read(folder), read(*directory / "whole")), 0) << name;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::keras
