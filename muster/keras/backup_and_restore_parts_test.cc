// Backups of fit() that several workers write in parts: as small states are divided here.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/manager.h"
#include "muster/files/file_systems.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"
#include "muster/train/save_parts.h"
#include "tests/support/held_save.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::keras {
namespace {

using muster::testing::HeldSave;
using muster::testing::LocalCluster;
using muster::testing::run_ranks;

class BackupPartsTest : public ::testing::Test {
 protected:
  ~BackupPartsTest() override { muster::internal::divide_states_from(before_); }

  static Model worker(const LocalCluster& cluster, int rank, int min_workers = 0) {
    Environment environment = cluster.environment(rank);
    if (min_workers > 0)
      environment = environment.with("MUSTER_MIN_WORKERS", std::to_string(min_workers));
    Model model(
        testing::two_layers(),
        {.strategy = distribute::multi_worker_mirrored(), .seed = 3, .environment = environment});
    model.compile(testing::settings());
    return model;
  }

  struct Run {
    std::string folder{};
    int64_t save_freq = 2, epochs = 3;
    std::function<void()> at_begin{};
    std::function<void(int64_t step)> at_step{};
  };
  // Five steps an epoch.
  static History train(Model& model, const Run& run) {
    const auto script = std::make_shared<LambdaCallback>(LambdaCallback::Functions{
        .on_train_begin = run.at_begin, .on_batch_end = [&](const BatchInfo&) {
          if (run.at_step) run.at_step(model.step());
        }});
    return model.fit(
        testing::rows_of(60).shuffle(60).global_batch(12),
        {.epochs = run.epochs,
         .callbacks = {script,
                       std::make_shared<BackupAndRestore>(
                           run.folder, BackupAndRestoreOptions{.save_freq = run.save_freq,
                                                               .delete_checkpoint = false})},
         .verbose = Verbose::kSilent});
  }
  // Ends this worker as the others see a lost one.
  static void be_lost(Model& model) {
    model.strategy()->run({.training = false},
                          [] { throw Error(ErrorKind::kUnavailable, "lost by the test"); });
  }

  static size_t parts_of_latest(const std::string& folder) {
    const auto latest = CheckpointManager(folder).latest();
    return latest ? open_checkpoint(file_systems(), *latest)->header().parts.files.size() : 0;
  }
  static int64_t stored(const std::string& part_of_name) {
    return std::ranges::count_if(memory_store().objects(), [&](const std::string& name) {
      return name.find(part_of_name) != std::string::npos;
    });
  }

  static constexpr int64_t kLargest = int64_t{1} << 40;  // bytes, more than any state here
  const int64_t before_ = muster::internal::divide_states_from(1);
  TempDirectory directory_;
};

// A run that fails in its second epoch, and continues from its backup.
TEST_F(BackupPartsTest, ARunContinuesFromItWithTheBitsOfOneThatWasNotStopped) {
  std::map<std::string, Tensor> expected;
  History history;
  for (const std::string name : {"not stopped", "whole", "parts"}) {
    SCOPED_TRACE(name);
    muster::internal::divide_states_from(name == "parts" ? 1 : kLargest);
    const Run run{.folder = directory_ / name};
    if (name != "not stopped") {
      Run stopped = run;
      stopped.at_step = [](int64_t step) {
        if (step == 9) throw invalid_argument("stopped by the test");
      };
      const LocalCluster cluster(2);
      run_ranks(2, [&](int rank) {
        Model model = worker(cluster, rank);
        EXPECT_EQ(error_of([&] { train(model, stopped); }).kind(), ErrorKind::kInvalidArgument);
      });
      EXPECT_EQ(parts_of_latest(run.folder), name == "parts" ? 2U : 0U);
    }
    const LocalCluster cluster(2);
    run_ranks(2, [&](int rank) {
      Model model = worker(cluster, rank);
      const History mine = train(model, run);
      const auto weights = testing::weights_of(model);
      if (rank != 0) return;
      if (name == "not stopped") {
        expected = weights;
        history = mine;
      }
      EXPECT_EQ(mine.history, history.history);
      for (const auto& [variable, value] : weights)
        EXPECT_TRUE(value.equal(expected.at(variable))) << variable;
    });
    EXPECT_EQ(parts_of_latest(run.folder), name == "parts" ? 2U : 0U);
  }
}

// Worker 1 is lost before its part is there. The others do not wait for the part, and write parts
// again. The part that comes late goes with a later save.
TEST_F(BackupPartsTest, ALostWorkerEndsOneBackupAndTheNextGroupHasPartsAgain) {
  HeldSave held("ckpt-4.part-1-of-3");
  const LocalCluster cluster(3);
  std::atomic<bool> is_gone{false};
  run_ranks(3, [&](int rank) {
    {
      Model model = worker(cluster, rank, /*min_workers=*/2);
      const Run run{.folder = "mem://backup-parts/lost", .at_step = [&](int64_t step) {
                      if (rank == 1 && step == 5) be_lost(model);
                      if (rank != 0 || step != 9) return;
                      EXPECT_EQ(stored("ckpt-4.safetensors"), 0);
                      held.open();
                      await([&] { return is_gone.load(); });
                    }};
      if (rank == 1) {
        EXPECT_EQ(error_of([&] { train(model, run); }).kind(), ErrorKind::kUnavailable);
      } else {
        train(model, run);
        EXPECT_EQ(model.step(), 15);
      }
    }
    if (rank == 1) is_gone = true;  // and its part is there
  });
  EXPECT_EQ(stored("ckpt-4."), 0);
  EXPECT_EQ(stored("ckpt-14.part-"), 2);
  EXPECT_EQ(parts_of_latest("mem://backup-parts/lost"), 2U);
}

// A worker comes while the part of another one is held: the backup is whole before the next group
// begins, and the group of three writes three parts.
TEST_F(BackupPartsTest, AWorkerThatComesFindsTheBackupWhole) {
  HeldSave held("ckpt-8.part-1-of-2");
  const LocalCluster cluster(3);
  std::atomic<bool> is_in_flight{false}, comes{false};
  const auto opener = std::async(std::launch::async, [&] {
    await([&] { return comes.load(); });
    // Reason: in this time a next group that does not wait for the part would begin, and no event
    // says that none has.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    held.open();
  });
  run_ranks(3, [&](int rank) {
    Run run{.folder = "mem://backup-parts/comes", .save_freq = 4, .epochs = 5};
    if (rank == 1) {
      Model model = worker(cluster, rank, 2);
      run.at_step = [&](int64_t) { be_lost(model); };
      EXPECT_EQ(error_of([&] { train(model, run); }).kind(), ErrorKind::kUnavailable);
      await([&] { return is_in_flight.load(); });
      run.at_step = nullptr;
      comes = true;
    }
    Model model = worker(cluster, rank, 2);
    run.at_begin = [&] {
      if (rank != 1) return;
      EXPECT_TRUE(model.step() >= 12 || stored("ckpt-8.part-") == 2) << model.step();
    };
    if (rank == 0) {
      run.at_step = [&](int64_t step) {
        if (step < 9 || step > 11) return;
        is_in_flight = true;
        // Reason: three slow steps, in which the chief hears of the newcomer before step 12.
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      };
    }
    train(model, run);
    EXPECT_EQ(model.step(), 25);
  });
  EXPECT_EQ(stored("ckpt-24.part-"), 3);
  EXPECT_EQ(parts_of_latest("mem://backup-parts/comes"), 3U);
}

}  // namespace
}  // namespace muster::inline v0_1::keras
