// Which process may write a loop's model_dir, and which data set gets which position.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/directory_lock.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/strategy.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// A model of one layer, and steps of it.
class Line {
 public:
  explicit Line(StrategyPtr strategy) : strategy_(std::move(strategy)) {}

  void train(const PerReplica<Batch>& batch) {
    strategy_->run(
        [&](const Features& x, const Labels& y) {
          sgd_.minimize(losses::mean_squared_error(y, model_(x)));
        },
        batch);
  }
  // One step on four points.
  void train() {
    for (const auto& batch : strategy_->distribute(points(4).batch(4))) train(batch);
  }

 private:
  StrategyPtr strategy_;
  const Layer model_ = Dense(1);
  const optim::Optimizer sgd_ = optim::sgd({.learning_rate = 0.1});
};

TEST(LoopCheckpointsTest, ASaveDoesNotGoBackBehindAnotherProgram) {
  TempDirectory temp;
  const std::string theirs = temp / "theirs", ours = temp / "ours";
  const auto strategy = one_device();
  {
    const auto scope = strategy->scope(alone());
    Line line(strategy);
    line.train();
    line.train();
    scope.save(theirs);
  }
  const auto scope = strategy->scope(alone());
  Line line(strategy);
  EXPECT_FALSE(scope.restore(ours));
  line.train();
  fs::create_directory(ours);
  fs::copy(theirs + "/model.ckpt-2.safetensors", ours);
  const Error error = error_of([&] { scope.save(ours); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("saved model.ckpt-2 in model_dir '" + ours + "'"),
                                     HasSubstr("nothing was saved at step 1")));
  EXPECT_FALSE(fs::exists(ours + "/model.ckpt-1.safetensors"));
}

TEST(LoopCheckpointsTest, WhatItSavedItselfIsNoObstacle) {
  TempDirectory temp;
  const auto strategy = one_device();
  for (int64_t run = 0; run < 2; ++run) {
    const auto scope = strategy->scope(alone());
    Line line(strategy);
    EXPECT_EQ(scope.restore(temp.path()), run > 0);
    for (int64_t step = 1; step <= 3; ++step) {
      line.train();
      // However the directory is spelled, and as many as this save keeps.
      scope.save(step == 2 ? temp.path() + "/../" + fs::path(temp.path()).filename().string() + "/"
                           : temp.path(),
                 {.keep_checkpoint_max = step == 3 ? 1 : 5});
    }
    EXPECT_EQ(scope.step(), 3 * (run + 1));
    EXPECT_FALSE(fs::exists(temp / fmt::format("model.ckpt-{}.safetensors", 3 * run + 2)));
    EXPECT_TRUE(fs::exists(temp / fmt::format("model.ckpt-{}.safetensors", 3 * run + 3)));
  }
}

// Checkpoints cannot be written to the store from now on.
void fail_saves() {
  memory_store().set_plan({.fail_from = 0, .only = [](const std::string& path) {
                             return path.ends_with(".safetensors");
                           }});
}

// On any number of replicas, in a store that fails: the loop goes on, tries again until the limit,
// and the last good one stays.
TEST(LoopCheckpointsTest, ASaveThatMayFailIsTriedAgain) {
  MemoryStore& store = memory_store();
  const std::string dir = "mem://loops/mine";
  for (const auto& strategy : {one_device(), mirrored({.replicas = 2})}) {
    store.clear();
    const auto scope = strategy->scope(alone());
    Line line(strategy);
    const auto step_and_save = [&] {
      line.train();
      return scope.save(dir, {.max_failed_saves = 2});
    };
    EXPECT_EQ(step_and_save(), dir + "/model.ckpt-1");
    fail_saves();
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(step_and_save(), "");
    log::flush();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("model.ckpt-2"), HasSubstr("1 of 2 allowed failures in a row"),
                      HasSubstr("2 of 2 allowed failures in a row")));
    EXPECT_EQ(CheckpointManager(dir).latest(), dir + "/model.ckpt-1");
    store.set_plan({});
    EXPECT_EQ(step_and_save(), dir + "/model.ckpt-4") << "and it is counted anew";
    fail_saves();
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(step_and_save(), "");
    const Error error = error_of(step_and_save);
    log::flush();
    (void)::testing::internal::GetCapturedStderr();
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.message(), HasSubstr("3 saves in a row failed, and no more may"));
    EXPECT_THAT(error.hint(), HasSubstr("SaveOptions.max_failed_saves"));
    EXPECT_EQ(CheckpointManager(dir).latest(), dir + "/model.ckpt-4");
  }
  store.clear();
}

// Each checkpoint has the numbers of its step, however many steps follow while it is written; and
// what goes wrong reaches a later call.
TEST(LoopCheckpointsTest, AThreadWritesTheCheckpointOfItsStep) {
  MemoryStore& store = memory_store();
  const std::string dir = "mem://loops/mine";
  for (const auto& strategy : {one_device(), mirrored({.replicas = 2})}) {
    store.clear();
    std::vector<Checkpoint> states;
    {
      const auto scope = strategy->scope(alone());
      Line line(strategy);
      for (int64_t step = 1; step <= 6; ++step) {
        line.train();
        states.push_back(scope.state());
        EXPECT_EQ(scope.save(dir, {.keep_checkpoint_max = 0, .asynchronous = step < 6}),
                  fmt::format("{}/model.ckpt-{}", dir, step));
      }
    }
    for (const Checkpoint& state : states) {
      const Checkpoint saved =
          CheckpointManager(dir).load(fmt::format("{}/model.ckpt-{}", dir, state.global_step));
      for (const auto& [name, value] : state.tensors)
        EXPECT_TRUE(saved.tensors.at(name).equal(value)) << name << " of " << state.global_step;
    }
    {
      const auto scope = strategy->scope(alone());
      Line line(strategy);
      const std::string other = dir + "2";
      const auto step_and_save = [&] {
        line.train();
        return scope.save(other, {.max_failed_saves = 1, .asynchronous = true});
      };
      for (int i = 0; i < 2; ++i) step_and_save();
      scope.end_saving(other);
      EXPECT_EQ(CheckpointManager(other).latest(), other + "/model.ckpt-2");
      fail_saves();
      ::testing::internal::CaptureStderr();
      const Error error = error_of([&] {
        for (int i = 0; i < 4; ++i) step_and_save();
      });
      log::flush();
      EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                  HasSubstr("1 of 1 allowed failures in a row"));
      EXPECT_THAT(error.message(), HasSubstr("2 saves in a row failed, and no more may"));
      EXPECT_EQ(CheckpointManager(other).latest(), other + "/model.ckpt-2");
    }
  }
  store.clear();
}

// While a save failed somebody else took the directory: no patience helps there.
TEST(LoopCheckpointsTest, WhoLostTheDirectoryDoesNotGoOn) {
  MemoryStore& store = memory_store();
  store.clear();
  const std::string dir = "mem://loops/mine";
  const auto strategy = one_device();
  const auto scope = strategy->scope(alone());
  Line line(strategy);
  line.train();
  scope.save(dir);
  line.train();
  fail_saves();
  store.on_request([&](int64_t, const std::string&) {
    store.on_request(nullptr);
    store
        .write_atomically(dir + "/writer.lease",
                          std::string_view(R"({"holder": "another", "pinned": [], "note": "",
                                               "id": "1", "space": "", "process": 0})"))
        .value();
  });
  EXPECT_THAT(error_of([&] { scope.save(dir, {.max_failed_saves = 2}); }).message(),
              HasSubstr("was taken by another program"));
  store.clear();
}

// The first save shows that it can be written.
TEST(LoopCheckpointsTest, TheFirstSaveMustNotFail) {
  memory_store().clear();
  fail_saves();
  const auto strategy = one_device();
  const auto scope = strategy->scope(alone());
  Line line(strategy);
  line.train();
  EXPECT_EQ(error_of([&] { scope.save("mem://loops/mine", {.max_failed_saves = 2}); }).kind(),
            ErrorKind::kUnavailable);
  memory_store().clear();
}

// A loop without a choice is told of each; so is a task that was asked to stop.
TEST(LoopCheckpointsTest, WhatMustNotFailIsAnError) {
  MemoryStore& store = memory_store();
  const std::string dir = "mem://loops/mine";
  for (const bool stopped : {false, true}) {
    store.clear();
    bool cancelled = false;
    ScopeOptions options = alone();
    options.cancelled = [&] { return cancelled; };
    const auto strategy = one_device();
    const auto scope = strategy->scope(options);
    Line line(strategy);
    line.train();
    scope.save(dir);
    line.train();
    EXPECT_THAT(message_of([&] { scope.save(dir, {.max_failed_saves = -1}); }),
                HasSubstr("SaveOptions.max_failed_saves is -1"));
    cancelled = stopped;
    fail_saves();
    EXPECT_THAT(error_of([&] { scope.save(dir, {.max_failed_saves = stopped ? 2 : 0}); }).message(),
                HasSubstr("cannot save the checkpoint 'mem://loops/mine/model.ckpt-2'"));
    store.set_plan({});
  }
  store.clear();
}

TEST(LoopCheckpointsTest, SavingHoldsTheLockUntilTheScopeEnds) {
  TempDirectory temp;
  bool cancelled = false;
  ScopeOptions options = alone();
  options.cancelled = [&] { return cancelled; };
  const auto strategy = one_device();
  std::optional<DistributedDataset> outlives;
  {
    const auto scope = strategy->scope(options);
    Line line(strategy);
    outlives = strategy->distribute(points(4).batch(4));
    line.train();
    scope.save(temp.path());
    const Error error = error_of([&] { DirectoryLock(temp.path(), std::chrono::seconds(0)); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  }
  const DirectoryLock free_again(temp.path(), std::chrono::seconds(0));
  const auto scope = strategy->scope(options);
  Line line(strategy);
  EXPECT_TRUE(scope.restore(temp.path()));  // while another program has it
  line.train();
  cancelled = true;
  const Error error = error_of([&] { scope.save(temp.path()); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.message(), HasSubstr("to leave model_dir"));
}

// Saves after `steps` batches of 4 of 8 points, shuffled: two make a pass.
void train_and_save(const std::string& model_dir, int steps) {
  const auto strategy = one_device();
  const auto scope = strategy->scope(alone());
  Line line(strategy);
  auto data = strategy->distribute(points(8).shuffle(8).batch(4));
  // Batches are counted before the next is read, so a pass ends when it has been asked for more.
  for (int made = 0; made < steps;) {
    for (const auto& batch : data) {
      line.train(batch);
      if (++made == steps && steps % 2 != 0) break;
    }
  }
  scope.save(model_dir);
}

TEST(LoopCheckpointsTest, ACountOfPassesIsNotAnotherPipelines) {
  TempDirectory temp;
  train_and_save(temp.path(), 4);
  const auto strategy = one_device();
  const auto scope = strategy->scope(alone());
  EXPECT_TRUE(scope.restore(temp.path()));
  ::testing::internal::CaptureStderr();
  int batches = 0;
  {
    auto test = strategy->distribute(points(6).batch(3));
    for ([[maybe_unused]] const auto& batch : test) ++batches;
    EXPECT_EQ(test.completed_passes(), 1);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("counts 2 passes of another"));
  EXPECT_EQ(batches, 2);
  auto training = strategy->distribute(points(8).shuffle(8).batch(2));  // batches may change
  EXPECT_EQ(training.completed_passes(), 2);
  for ([[maybe_unused]] const auto& batch : training) ++batches;
  EXPECT_EQ(batches, 6);
  EXPECT_EQ(training.completed_passes(), 3);
}

TEST(LoopCheckpointsTest, APassUnderWayIsRefusedToAnotherPipeline) {
  TempDirectory temp;
  train_and_save(temp.path(), 3);
  const auto strategy = one_device();
  const auto scope = strategy->scope(alone());
  EXPECT_TRUE(scope.restore(temp.path()));
  auto test = strategy->distribute(points(6).batch(3));
  const Error error = error_of([&] { (void)test.begin(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("another input pipeline"));
  EXPECT_THAT(error.hint(), HasSubstr("in the order of distribute()"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
