// Saves that a thread writes, as runs of the trainer make them.
#include "muster/train/pending_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/optim/optimizer.h"
#include "muster/plan/save_in_flight.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/hook.h"
#include "muster/train/model_context.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const nlohmann::json kNoParameters = nlohmann::json::object();

// The files of this machine; those of one step get their name when the test says so.
class GatedFiles final : public FaultFileSystem {
 public:
  explicit GatedFiles(int64_t step)
      : FaultFileSystem(local_file_system()), name_("ckpt-" + std::to_string(step) + ".") {}

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Waits until a checkpoint of the step waits to be named.
  void await_write() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return written_; });
  }

  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    auto writer = FaultFileSystem::open_staged(path);
    if (!writer.ok() || path.find(name_) == std::string::npos) return writer;
    return std::unique_ptr<StagedWriter>(std::make_unique<Gate>(*this, std::move(writer.value())));
  }

 private:
  class Gate final : public StagedWriter {
   public:
    Gate(GatedFiles& files, std::unique_ptr<StagedWriter> base)
        : files_(files), base_(std::move(base)) {}
    Status append(Bytes bytes) override { return base_->append(bytes); }
    Status sync() override { return base_->sync(); }
    Status commit() override {
      std::unique_lock lock(files_.mutex_);
      files_.written_ = true;
      files_.changed_.notify_all();
      files_.changed_.wait(lock, [&] { return files_.open_; });
      return base_->commit();
    }
    Status discard() override { return base_->discard(); }

   private:
    GatedFiles& files_;
    std::unique_ptr<StagedWriter> base_;
  };

  const std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, written_ = false;
};

// Its optimizer has slots.
EstimatorSpec distance_of_three(const Features& features, const Labels&, Mode,
                                ModelContext& context) {
  const Tensor& w = context.variable(
      {.name = "w", .shape = {3}, .initializer = [](const Shape& shape, DType dtype, RandomKey) {
         return torch::ones(shape, torch::TensorOptions(dtype));
       }});
  const Tensor loss = (w - features.tensor().unsqueeze(1)).square().mean();
  return EstimatorSpec::train(
      loss, context.optimizer(optim::adam({.learning_rate = 0.25})).minimize(loss));
}

InputFn pairs_of_numbers(int64_t batches) {
  return [=] {
    return Dataset::from_tensor_slices(torch::arange(0, 2 * batches, at::kFloat)).batch(2);
  };
}

// Calls what a test gives it, and keeps what it was told.
class TellingHook final : public Hook {
 public:
  std::function<void(int64_t)> step = [](int64_t) {};
  std::vector<std::string> told;

  void after_step(const StepInfo& info) override {
    told.push_back("step " + std::to_string(info.global_step));
    step(info.global_step);
  }
  void before_save(int64_t step) override { told.push_back("saving " + std::to_string(step)); }
  void after_save(int64_t step, const std::string& prefix) override {
    EXPECT_EQ(step, checkpoint_step(prefix));
    EXPECT_TRUE(local_file_system().exists(checkpoint_file(prefix)).value());
    told.push_back("saved " + std::to_string(step));
  }
  void on_error(const Error&) override { told.push_back("error"); }
};

class PendingSaveTest : public ::testing::Test {
 protected:
  // Saves every two steps.
  TrainerOptions options(const std::string& name, FileSystem* fs = nullptr) {
    return {.model_dir = directory / name,
            .strategy = distribute::one_device(),
            .params = &kNoParameters,
            .save_checkpoints_steps = 2,
            .keep_checkpoint_max = 0,
            .asynchronous_saves = true,
            .chief_hooks = {calls},
            .fs = fs};
  }
  int64_t latest(const std::string& name) const {
    const auto newest = CheckpointManager(directory / name).load_latest();
    return newest ? newest->checkpoint.global_step : -1;
  }

  TempDirectory directory;
  std::shared_ptr<TellingHook> calls = std::make_shared<TellingHook>();
};

// Without a thread the run would wait here for ever. Each checkpoint has the bits, and the position
// of the input, that it has in a run that waits for its saves.
TEST_F(PendingSaveTest, StepsGoOnAndTheCheckpointIsOfItsStep) {
  TrainerOptions waiting = options("waiting");
  waiting.asynchronous_saves = false;
  train(distance_of_three, pairs_of_numbers(7), waiting);

  GatedFiles files(2);
  calls->told.clear();
  calls->step = [&](int64_t step) {
    if (step != 4) return;
    files.await_write();
    EXPECT_EQ(latest("m"), 0) << "nobody sees what is not written";
    EXPECT_EQ(plan::save_in_flight(), 2) << "people who look at the run see it";
    files.open();
  };
  train(distance_of_three, pairs_of_numbers(7), options("m", &files));
  EXPECT_FALSE(plan::save_in_flight());
  const std::vector<std::string> first(calls->told.begin(), calls->told.begin() + 9);
  EXPECT_THAT(first, ElementsAre("saving 0", "saved 0", "step 1", "step 2", "saving 2", "step 3",
                                 "step 4", "saved 2", "saving 4"));
  for (const int64_t step : {0, 2, 4, 6, 7}) {
    const std::string name = "/model.ckpt-" + std::to_string(step);
    const Checkpoint mine = read_checkpoint(files, directory / ("m" + name)),
                     theirs = read_checkpoint(files, directory / ("waiting" + name));
    ASSERT_EQ(mine.tensors.size(), theirs.tensors.size());
    for (const auto& [tensor, value] : theirs.tensors)
      EXPECT_TRUE(mine.tensors.at(tensor).equal(value)) << tensor << " of step " << step;
    EXPECT_EQ(mine.inputs, theirs.inputs);
    EXPECT_EQ(mine.global_step, step);
  }
}

TEST_F(PendingSaveTest, HooksLearnOfEachCheckpointBeforeTheNextSaveAndTheEnd) {
  train(distance_of_three, pairs_of_numbers(7), options("m"));
  std::vector<std::string> saves;
  for (const std::string& each : calls->told) {
    if (each.starts_with("sav")) saves.push_back(each);
  }
  EXPECT_THAT(saves, ElementsAre("saving 0", "saved 0", "saving 2", "saved 2", "saving 4",
                                 "saved 4", "saving 6", "saved 6", "saving 7", "saved 7"));
}

TEST_F(PendingSaveTest, AFailureThatWasThrownIsNoSuccessLater) {
  const auto replica = distribute::one_device()->start({});
  CheckpointWriter writer(directory / "m");
  PendingSave pending;
  pending.begin(
      &writer,
      [&]() -> CheckpointInParts {
        return {{.global_step = 1},
                [](Checkpoint&) -> Status { return Error(ErrorKind::kUnavailable, "no disk"); }};
      },
      {}, nullptr);
  EXPECT_THAT(error_of([&] { (void)pending.settle(*replica, "the save of step 2"); }).message(),
              HasSubstr("no disk"));
  EXPECT_EQ(pending.settle(*replica, "the save of step 2"), false);
  EXPECT_EQ(pending.settle(*replica, "the save of step 2"), std::nullopt);
}

// A failure to add the rest is that of a save. What it throws ends the run, also where saves may
// fail.
TEST_F(PendingSaveTest, TheThreadAddsTheRestOfACheckpoint) {
  CheckpointWriter writer(directory / "m");
  FailedSaves failures(2, "the limit");
  const auto save = [&](int64_t step, const RestOfCheckpoint& rest) {
    PendingSave pending;
    pending.begin(
        &writer,
        [&]() -> CheckpointInParts {
          return {{.global_step = step}, rest};
        },
        {}, &failures);
    return pending.await();
  };
  std::thread::id thread;
  const std::string prefix = save(1, [&](Checkpoint& checkpoint) -> Status {
    thread = std::this_thread::get_id();
    checkpoint.tensors["late"] = torch::ones({3});
    return {};
  });
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_EQ(read_checkpoint(local_file_system(), prefix).tensors.count("late"), 1u);
  const Error full(ErrorKind::kUnavailable, "ps 1 cannot save its part");
  EXPECT_EQ(save(2, [&](Checkpoint&) -> Status { return full; }), "");
  const Error error = error_of([&] {
    save(3, [&](Checkpoint&) -> Status { throw Error(ErrorKind::kPeerLost, "ps 1 was lost"); });
  });
  EXPECT_EQ(error.message(), "ps 1 was lost");
  EXPECT_EQ(latest("m"), 1);
}

TEST_F(PendingSaveTest, OnlyOneIsInFlightAndTheNextSaysThatItWaits) {
  GatedFiles files(2);
  std::jthread opens([&] {
    files.await_write();
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    EXPECT_EQ(latest("m"), 0) << "the save of step 4 has not begun";
    files.open();
  });
  ::testing::internal::CaptureStderr();
  train(distance_of_three, pairs_of_numbers(5), options("m", &files));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the save of step 4 waits for the checkpoint of step 2, which is still "
                        "being written (wait 1 of this run)"));
  EXPECT_EQ(latest("m"), 5);
}

TEST_F(PendingSaveTest, AFullDiskEndsTheRunAsItDoesWithoutAThread) {
  const auto failing = [&](bool asynchronous) {
    FaultFileSystem files(local_file_system());
    calls->step = [&](int64_t step) {
      if (step == 5) files.set_plan({.no_space_from = 0});
    };
    TrainerOptions given = options(asynchronous ? "thread" : "waits", &files);
    given.asynchronous_saves = asynchronous;
    const Error error = error_of([&] { train(distance_of_three, pairs_of_numbers(400), given); });
    EXPECT_EQ(calls->told.back(), "error");
    return error;
  };
  const Error waited = failing(false), error = failing(true);
  EXPECT_EQ(error.kind(), waited.kind());
  EXPECT_THAT(error.message(), HasSubstr("thread/model.ckpt-"));
  EXPECT_THAT(error.hint(), HasSubstr("the checkpoints up to model.ckpt-"));
  // Step 4 is there if its write had ended before the disk was full.
  EXPECT_THAT(latest("thread"), ::testing::AnyOf(2, 4));
}

TEST_F(PendingSaveTest, SavesThatMayFailAreCountedAndTheLastOneMustNot) {
  for (const int replicas : {1, 2}) {
    const std::string name = std::to_string(replicas);
    FaultFileSystem files(local_file_system());
    calls->step = [&](int64_t step) {
      if (step == 5) files.set_plan({.no_space_from = 0});
      if (step == 9) files.set_plan({});
    };
    TrainerOptions given = options(name, &files);
    given.strategy = distribute::mirrored({.replicas = replicas});
    given.max_failed_saves = 3;
    ::testing::internal::CaptureStderr();
    train(distance_of_three, pairs_of_numbers(10 * replicas), given);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("(1 of 3 allowed failures in a row)"));
    EXPECT_EQ(latest(name), 10);
    const auto kept = CheckpointManager(directory / name).all();
    EXPECT_THAT(kept, ::testing::Not(::testing::Contains(HasSubstr("ckpt-6"))));

    // The disk stays full: the last save of the run fails it.
    files.set_plan({});
    calls->step = [&](int64_t step) {
      if (step == 5) files.set_plan({.no_space_from = 0});
    };
    TrainerOptions full = options(name + " full", &files);
    full.strategy = given.strategy;
    full.max_failed_saves = 100;
    const Error error =
        error_of([&] { train(distance_of_three, pairs_of_numbers(10 * replicas), full); });
    EXPECT_THAT(error.message(), HasSubstr("cannot save the checkpoint"));
    EXPECT_THAT(latest(name + " full"), ::testing::AnyOf(2, 4));
  }
}

// What a real file system says, next to the FaultFileSystem of the test above. Mounts are seen by
// the threads of this test alone.
TEST_F(PendingSaveTest, ADirectoryThatIsFullOrReadOnlyCostsOnlyTheSavesOfThatTime) {
  bool may_mount = true;
  const auto run = [&](const std::string& name, bool full) {
    const std::string folder = directory / name, filler = folder + "/filler";
    ASSERT_EQ(::mkdir(folder.c_str(), 0777), 0);
    ASSERT_EQ(::mount("none", folder.c_str(), "tmpfs", 0, "size=1m"), 0);
    const auto refuse = [&] {
      if (full) {
        std::ofstream(filler) << std::string(size_t{2} << 20, 'x');
        return;
      }
      ASSERT_EQ(::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), 0);
      ASSERT_EQ(
          ::mount(nullptr, folder.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
    };
    const auto allow = [&] {
      EXPECT_EQ(full ? ::unlink(filler.c_str()) : ::umount2(folder.c_str(), MNT_DETACH), 0);
    };
    const auto kept = ::testing::AnyOf(2, 4);  // 4 if its write had ended
    TrainerOptions given = options(name);
    given.max_failed_saves = 1;
    calls->step = [&](int64_t step) {
      if (step == 5) refuse();
    };
    const Error error = error_of([&] { train(distance_of_three, pairs_of_numbers(10), given); });
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("2 saves in a row failed"),
                      HasSubstr(full ? "No space left" : "Read-only file system")));
    EXPECT_THAT(latest(name), kept);
    allow();

    given.max_failed_saves = 3;
    calls->step = [&](int64_t step) {
      if (step == 5) refuse();
      if (step != 9) return;
      EXPECT_THAT(latest(name), kept);
      allow();
    };
    train(distance_of_three, pairs_of_numbers(10), given);
    EXPECT_EQ(latest(name), 10);
  };
  ::testing::internal::CaptureStderr();
  std::thread([&] {
    may_mount = ::unshare(CLONE_NEWNS) == 0 &&
                ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!may_mount) return;
    run("full", true);
    run("read-only", false);
  }).join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (!may_mount) GTEST_SKIP() << "mounting a small file system needs root";
  EXPECT_THAT(said, HasSubstr("(1 of 3 allowed failures in a row)"));
}

// The law of promise 4 for a thread that writes: whatever change of the files is the last one, the
// newest checkpoint that is left is whole, also if only one is kept, and the run continues from it
// to the bits of a run that nothing disturbed.
TEST_F(PendingSaveTest, ACrashAtAnyChangeLosesOnlySteps) {
  const auto run = [&](const std::string& name, FileSystem* fs) {
    TrainerOptions given = options(name, fs);
    given.keep_checkpoint_max = 1;
    train(distance_of_three, pairs_of_numbers(7), given);
  };
  run("whole", nullptr);
  const Checkpoint whole = CheckpointManager(directory / "whole").load_latest()->checkpoint;
  ::testing::internal::CaptureStderr();
  int crashes = 0;
  for (int64_t at = 0;; ++at) {
    const std::string name = "crash " + std::to_string(at);
    FaultFileSystem files(local_file_system(), {.crash_at = at});
    int64_t saved = -1;
    calls->step = [&](int64_t) { saved = std::max(saved, latest(name)); };
    try {
      run(name, &files);
    } catch (const Error&) {
    }
    EXPECT_GE(latest(name), saved) << "what was there once is lost, crash at " << at;
    calls->step = [](int64_t) {};
    run(name, nullptr);
    const auto left = CheckpointManager(directory / name).load_latest();
    ASSERT_TRUE(left.has_value());
    EXPECT_TRUE(left->skipped.empty());
    EXPECT_EQ(left->checkpoint.global_step, 7);
    for (const auto& [tensor, value] : whole.tensors)
      EXPECT_TRUE(left->checkpoint.tensors.at(tensor).equal(value)) << "crash at " << at;
    if (!files.crashed()) break;
    ++crashes;
  }
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_GE(crashes, 30);  // five checkpoints of several changes each
}

TEST_F(PendingSaveTest, ARunThatFailsEndsItsSaveFirst) {
  GatedFiles files(2);
  std::jthread opens;
  calls->step = [&](int64_t step) {
    if (step < 3) return;
    files.await_write();
    opens = std::jthread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      files.open();
    });
    throw invalid_argument("the hook broke", "");
  };
  EXPECT_THAT(error_of([&] {
                train(distance_of_three, pairs_of_numbers(9), options("m", &files));
              }).message(),
              HasSubstr("the hook broke"));
  EXPECT_EQ(latest("m"), 2);
  EXPECT_THAT(calls->told, ::testing::IsSupersetOf({"saved 2", "error"}));
  EXPECT_EQ(calls->told.back(), "error");
}

TEST_F(PendingSaveTest, AVariableThatIsNoNumberEndsTheRunAtItsStep) {
  const ModelFn exploding = [](const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
    EstimatorSpec spec = distance_of_three(features, labels, mode, context);
    if (context.global_step() == 3) {
      const Tensor w = context.variable({.name = "w", .shape = {3}});
      spec.train_op.updates.push_back([w] { Tensor(w.detach()).fill_(std::nan("")); });
    }
    return spec;
  };
  const Error error = error_of([&] { train(exploding, pairs_of_numbers(20), options("m")); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(error.message(),
            "after step 4 the variable w holds nan (element 0 of float32[3]); nothing was saved");
  EXPECT_EQ(latest("m"), 2);
}

}  // namespace
}  // namespace muster::inline v0_1
