// fit() on workers: the place of its backups, and the error if one worker makes a call alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/command/job_dir.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"
#include "muster/train/stop_request.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::keras {
namespace {

using ::testing::HasSubstr;
using testing::rows_of;

struct SetJobDir {
  explicit SetJobDir(const std::string& directory) { command::set_job_dir(directory); }
  ~SetJobDir() { command::set_job_dir(""); }
};

// Two workers as threads, each with a model of another name, since a process numbers its own.
void run_workers(const std::function<void(int rank, Model& model)>& program) {
  const muster::testing::LocalCluster cluster(2, /*chief=*/false);
  muster::testing::run_ranks(2, [&](int rank) {
    static std::atomic<int> number{0};
    Model model(testing::two_layers(),
                {.name = "of_" + std::to_string(rank) + "_" + std::to_string(number++),
                 .strategy = distribute::multi_worker_mirrored(),
                 .seed = 3,
                 .environment = cluster.environment(rank)});
    model.compile(testing::settings());
    program(rank, model);
  });
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

TEST(FitOnWorkersTest, OnAClusterTheyGoBelowTheJobsDirectory) {
  const TempDirectory folder;
  std::filesystem::create_directories(folder / "job");
  const SetJobDir job(folder / "job");
  std::atomic<int> seen{0};
  struct Looks : Callback {
    Looks(std::string folder, std::atomic<int>& seen) : folder(std::move(folder)), seen(seen) {}
    void on_epoch_begin(int64_t epoch) override {
      if (epoch == 0 || !model().is_chief()) return;
      EXPECT_THAT(entries_of(folder), ::testing::ElementsAre(::testing::StartsWith("backup-of_0")));
      ++seen;
    }
    const std::string folder;
    std::atomic<int>& seen;
  };
  run_workers([&](int, Model& model) {
    model.fit(rows_of(20).batch(10), {.epochs = 2,
                                      .callbacks = {std::make_shared<Looks>(folder / "job", seen)},
                                      .verbose = Verbose::kSilent});
  });
  EXPECT_EQ(seen, 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder / "job"));
}

// request_stop() ends the fit() that is under way, after the same step on all workers.
TEST(FitOnWorkersTest, ARequestOfTheProgramEndsFit) {
  struct Asks : Callback {
    void on_train_batch_end(const BatchInfo& info) override {
      if (info.batch == 3 && model().is_chief()) request_stop();
    }
  };
  std::array<int64_t, 2> steps{};
  run_workers([&](int rank, Model& model) {
    const History history = model.fit(
        rows_of(200).batch(10),
        {.epochs = 1000, .callbacks = {std::make_shared<Asks>()}, .verbose = Verbose::kSilent});
    steps[static_cast<size_t>(rank)] = model.step();
    // A later one is not asked.
    model.fit(rows_of(20).batch(10), {.epochs = 1, .verbose = Verbose::kSilent});
    EXPECT_GT(model.step(), steps[static_cast<size_t>(rank)]);
  });
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_GE(steps[0], 4);
  EXPECT_LE(steps[0], 6);
}

TEST(FitOnWorkersTest, WithoutADirectoryOfTheJobThereAreNone) {
  ::testing::internal::CaptureStderr();
  run_workers([&](int, Model& model) {
    model.fit(rows_of(20).batch(10), {.epochs = 2, .verbose = Verbose::kSilent});
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("fit() writes no backups, because this job has no folder"));
  EXPECT_FALSE(std::filesystem::exists("muster_backup"));
}

// Not after the epochs that both have in common.
TEST(FitOnWorkersTest, ACallThatDiffersIsRefusedBeforeItsFirstStep) {
  run_workers([&](int rank, Model& model) {
    const Error error = error_of([&] {
      model.fit(rows_of(20).batch(10), {.epochs = 2 + rank, .verbose = Verbose::kSilent});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("epochs is 2 on worker 0; 3 on worker 1"));
    EXPECT_EQ(model.step(), 0);
  });
}

// The chief alone looks there: the others end with its error.
TEST(FitOnWorkersTest, AFolderThatIsNoPlaceForBackupsEndsAllBeforeTheFirstStep) {
  const TempDirectory folder;
  local_file_system().write_atomically(folder / "file", "x").value();
  run_workers([&](int, Model& model) {
    const Error error = error_of([&] {
      model.fit(rows_of(20).batch(10),
                {.callbacks = {std::make_shared<BackupAndRestore>(folder / "file/backup")},
                 .verbose = Verbose::kSilent});
    });
    EXPECT_THAT(error.message(), HasSubstr("fit: cannot write backups to backup_dir '" +
                                           (folder / "file/backup") + "'"));
    EXPECT_EQ(model.step(), 0);
  });
}

// They would wait for each other: one at the backup, the other one before its first step.
TEST(FitOnWorkersTest, BackupsOfOneWorkerAloneAreRefused) {
  const TempDirectory folder;
  run_workers([&](int rank, Model& model) {
    FitOptions options{.verbose = Verbose::kSilent};
    if (rank == 0) options.callbacks = {std::make_shared<BackupAndRestore>(folder / "backup")};
    EXPECT_THAT(error_of([&] { model.fit(rows_of(20).batch(10), options); }).message(),
                HasSubstr("backups is after each epoch on worker 0; none on worker 1"));
  });
}

TEST(FitOnWorkersTest, ABackupOfAnotherRunIsNamedOnAll) {
  const TempDirectory folder;
  const auto fit = [&](Model& model, int64_t batch_size, int64_t killed_at) {
    struct Killed : Callback {
      explicit Killed(int64_t step) : step(step) {}
      void on_train_batch_begin(int64_t) override {
        if (model().step() == step) throw invalid_argument("stopped by the test");
      }
      const int64_t step;
    };
    return error_of([&] {
      model.fit(rows_of(20).batch(batch_size),
                {.epochs = 2,
                 .callbacks = {std::make_shared<BackupAndRestore>(folder / "backup"),
                               std::make_shared<Killed>(killed_at)},
                 .verbose = Verbose::kSilent});
    });
  };
  run_workers([&](int, Model& model) { (void)fit(model, 10, 2); });
  ASSERT_TRUE(std::filesystem::exists(folder / "backup"));
  run_workers([&](int, Model& model) {
    EXPECT_THAT(fit(model, 5, -1).message(),
                HasSubstr("fit: the backup in " + (folder / "backup") +
                          " is of another run than this one: the data: "));
  });
}

// Each worker would give its gradients other weights, and no number would tell.
TEST(FitOnWorkersTest, OtherClassWeightsAreRefused) {
  run_workers([&](int rank, Model& model) {
    const Error error = error_of([&] {
      model.fit(rows_of(20).batch(10),
                {.class_weight = {1, 1.5 + rank}, .verbose = Verbose::kSilent});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(),
                HasSubstr("class_weight is [1, 1.5] on worker 0; [1, 2.5] on worker 1"));
  });
}

// Found at once, where each would wait for the other, and at the worker that is to blame.
TEST(FitOnWorkersTest, ACallOfTheChiefAloneIsNamed) {
  const TempDirectory folder;
  const testing::Points some = testing::points(16);
  const std::pair<const char*, std::function<void(Model&)>> calls[] = {
      {"Model::save()", [&](Model& model) { model.save(folder / "m"); }},
      {"Model::save_weights()",
       [&](Model& model) { model.save_weights(folder / "w.safetensors"); }},
      {"Model::evaluate()", [&](Model& model) { model.evaluate(some.x, some.y); }},
      {"Model::fit()", [&](Model& model) { model.fit(some.x, some.y, {.batch_size = 8}); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    std::atomic<int> told{0};
    ::testing::internal::CaptureStderr();
    run_workers([&](int rank, Model& model) {
      model.fit(some.x, some.y, {.batch_size = 8, .verbose = Verbose::kSilent});
      if (rank != 0) return;
      const Error error = error_of([&] { call(model); });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(std::string("worker 0 to ") + name +
                                          ", worker 1 to the end of its scope"));
      EXPECT_THAT(error.hint(), HasSubstr("every worker makes these calls"));
      ++told;
    });
    log::flush();
    EXPECT_EQ(told, 1);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr(std::string("worker 0 to ") + name));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::keras
