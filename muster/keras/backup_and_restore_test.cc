// Which run a backup of fit() is of: another one does not continue with it.
#include "muster/keras/backup_and_restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/command/job_dir.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/testing/test_models.h"
#include "muster/train/checkpoint_writer.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::keras {
namespace {

using testing::alone;
using testing::compiled;
using testing::difference;
using ::testing::HasSubstr;
using testing::rows_of;
using testing::weights_of;

struct KilledInEpoch : Callback {
  explicit KilledInEpoch(int64_t epoch) : epoch(epoch) {}
  void on_epoch_begin(int64_t begins) override {
    if (begins == epoch) throw std::runtime_error("killed");
  }
  const int64_t epoch;
};

FitOptions into(const std::string& directory, int64_t killed_in = -1) {
  FitOptions options{.epochs = 3, .verbose = Verbose::kSilent};
  options.callbacks = {std::make_shared<BackupAndRestore>(directory)};
  if (killed_in >= 0) options.callbacks.push_back(std::make_shared<KilledInEpoch>(killed_in));
  return options;
}

struct JobDir {
  explicit JobDir(const std::string& directory) { command::set_job_dir(directory); }
  ~JobDir() { command::set_job_dir(""); }
};

TEST(FitBackupsTest, ABackupOfAnotherRunIsRefusedAndStays) {
  const TempDirectory folder;
  const std::string directory = folder / "backup";
  const Dataset data = rows_of(20).batch(10);
  {
    Model model = compiled();
    EXPECT_THROW(model.fit(data, into(directory, 1)), std::exception);
  }
  const auto refused = [&](const std::function<void(Model&)>& run, Model model = compiled()) {
    const Error error = error_of([&] { run(model); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("is of another run than this one: "));
    EXPECT_THAT(error.hint(), HasSubstr("or remove " + directory));
    EXPECT_TRUE(local_file_system().exists(directory).value());
    return error.message();
  };
  const auto fits = [&](Model& model) { model.fit(data, into(directory)); };
  // The next trial of a search.
  Model faster(testing::two_layers(), alone());
  CompileOptions settings = testing::settings();
  settings.optimizer = optim::adam({.learning_rate = 0.5});
  faster.compile(settings);
  EXPECT_THAT(refused(fits, std::move(faster)), HasSubstr("the optimizer: "));
  settings = testing::settings();
  settings.metrics = {};
  Model unmeasured(testing::two_layers(), alone());
  unmeasured.compile(settings);
  EXPECT_THAT(refused(fits, std::move(unmeasured)), HasSubstr("the losses and metrics: "));
  Model wider(Sequential({Dense(9, {.activation = activations::tanh}), Dense(2)}),
              {.seed = 3, .inputs = {Input({4})}, .environment = Environment()});
  wider.compile(testing::settings());
  EXPECT_THAT(refused(fits, std::move(wider)), HasSubstr("the layers: "));
  EXPECT_THAT(refused([&](Model& model) { model.fit(rows_of(20).batch(5), into(directory)); }),
              HasSubstr("the data: "));
  EXPECT_THAT(refused([&](Model& model) {
                FitOptions options = into(directory);
                options.steps_per_epoch = 1;
                model.fit(data, options);
              }),
              HasSubstr("steps_per_epoch: 1, and was unset"));
  {
    const JobDir job("elsewhere/");
    EXPECT_THAT(refused(fits), HasSubstr("the job's directory: elsewhere, and was none"));
  }
  // The same run continues, and may have more epochs.
  Model same = compiled(), whole = compiled();
  FitOptions more = into(directory);
  more.epochs = 4;
  EXPECT_EQ(same.fit(data, more).epoch.size(), 4u);
  whole.fit(data, {.epochs = 4});
  EXPECT_EQ(difference(weights_of(same), weights_of(whole)), 0);
}

// The backup is of the last step of an epoch whose end was not reached.
TEST(FitBackupsTest, AnEpochThatContinuesAtItsEndMakesNoMoreSteps) {
  struct KilledAtEnd : Callback {
    void on_epoch_end(int64_t, Logs&) override { throw std::runtime_error("killed"); }
  };
  for (const bool counts_steps : {false, true}) {
    SCOPED_TRACE(counts_steps);
    const TempDirectory folder;
    std::vector<int64_t> rates;
    const auto fit = [&](Model& model, const std::shared_ptr<Callback>& last) {
      FitOptions options{.epochs = 3, .verbose = Verbose::kSilent};
      if (counts_steps) options.steps_per_epoch = 2;
      options.callbacks = {std::make_shared<BackupAndRestore>(
                               folder / "backup", BackupAndRestoreOptions{.save_freq = 2}),
                           std::make_shared<LearningRateScheduler>([&](int64_t epoch, double rate) {
                             rates.push_back(epoch);
                             return rate / 2;
                           }),
                           last};
      const Dataset data = rows_of(20).batch(10);
      return model.fit(counts_steps ? data.repeat() : data, options);
    };
    {
      Model model = compiled();
      EXPECT_THROW(fit(model, std::make_shared<KilledAtEnd>()), std::runtime_error);
    }
    Model model = compiled();
    ::testing::internal::CaptureStderr();
    const History history = fit(model, std::make_shared<ModelCheckpoint>(
                                           folder / "{epoch}.safetensors",
                                           ModelCheckpointOptions{.save_weights_only = true}));
    log::flush();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("fit continues at the end of epoch 1 of 3"));
    EXPECT_EQ(model.step(), 6);
    EXPECT_EQ(history.epoch, (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(rates, (std::vector<int64_t>{0, 1, 2})) << "once for each epoch";
    EXPECT_NEAR(model.learning_rate(), 0.01 / 8, 1e-9);
    for (const char* file : {"1.safetensors", "2.safetensors", "3.safetensors"})
      EXPECT_TRUE(local_file_system().exists(folder / file).value()) << file;
  }
}

TEST(FitBackupsTest, ACallbackOfAProgramAsksForThem) {
  struct Mine : Callback {
    explicit Mine(std::string folder) : folder(std::move(folder)) {}
    CallbackNeeds needs() const override {
      return {.backups = Backups{.backup_dir = folder, .options = {.save_freq = 1}}};
    }
    const std::string folder;
  };
  const TempDirectory folder;
  const Dataset data = rows_of(20).batch(10);
  const auto mine = std::make_shared<Mine>(folder / "mine");
  FitOptions options{.epochs = 3, .verbose = Verbose::kSilent};
  options.callbacks = {mine, std::make_shared<KilledInEpoch>(1)};
  {
    Model stopped = compiled();
    EXPECT_THROW(stopped.fit(data, options), std::exception);
  }
  EXPECT_TRUE(local_file_system().exists(mine->folder).value());
  struct Counts : Callback {
    void on_train_batch_end(const BatchInfo&) override { ++batches; }
    int batches = 0;
  };
  const auto counts = std::make_shared<Counts>();
  options.callbacks = {mine, counts};
  Model again = compiled(), whole = compiled();
  again.fit(data, options);
  whole.fit(data, {.epochs = 3});
  EXPECT_EQ(counts->batches, 4);  // the other 2 are in the backup
  EXPECT_EQ(difference(weights_of(again), weights_of(whole)), 0);
  EXPECT_FALSE(local_file_system().exists(mine->folder).value());

  options.callbacks = {mine, std::make_shared<BackupAndRestore>(folder / "other")};
  EXPECT_THAT(error_of([&] { compiled().fit(data, options); }).message(),
              HasSubstr("two callbacks ask for backups, Mine and BackupAndRestore"));
  options.callbacks = {std::make_shared<Mine>("")};
  EXPECT_THAT(error_of([&] { compiled().fit(data, options); }).message(),
              HasSubstr("backup_dir is empty"));
}

TEST(FitBackupsTest, CtrlCSaysWhetherTheSameCommandGoesOn) {
  const TempDirectory folder;
  install_stop_handlers();
  struct Interrupted : Callback {
    void on_train_batch_end(const BatchInfo&) override {
      if (model().step() == 1) std::raise(SIGINT);
    }
  };
  const auto stopped = [&](FitOptions options) {
    options.callbacks.push_back(std::make_shared<Interrupted>());
    Model model = compiled();
    const Error error = error_of([&] { model.fit(rows_of(20).batch(5), options); });
    clear_stop_signal();
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << error.what();
    return error;
  };
  const Error kept = stopped(into(folder / "backup"));
  EXPECT_THAT(kept.message(), HasSubstr("after saving step 1"));
  EXPECT_EQ(kept.hint(), "run the same command again to continue");
  const Error lost = stopped({.verbose = Verbose::kSilent});
  EXPECT_THAT(lost.message(), HasSubstr("at step 1, which was not saved"));
  EXPECT_THAT(lost.hint(),
              HasSubstr("nothing was saved, so the same command starts from the beginning"));
}

TEST(FitBackupsTest, AFolderThatIsNoPlaceForThemEndsFitBeforeItsFirstStep) {
  const TempDirectory folder;
  local_file_system().write_atomically(folder / "file", "x").value();
  std::filesystem::create_directories(folder / "used");
  const CheckpointWriter other(folder / "used");
  for (const auto& [place, why] : {std::pair{"file/backup", "cannot write checkpoints to"},
                                   std::pair{"used", "is in use by process"}}) {
    SCOPED_TRACE(place);
    Model model = compiled();
    FitOptions options = into(folder / place);
    options.callbacks = {std::make_shared<BackupAndRestore>(
        folder / place, BackupAndRestoreOptions{.max_failed_saves = 5})};
    const Error error = error_of([&] { model.fit(rows_of(20).batch(10), options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_EQ(error.message(),
              "fit: cannot write backups to backup_dir '" + (folder / place) + "'");
    EXPECT_THAT(error.what(), HasSubstr(why));
    EXPECT_EQ(model.step(), 0);
    // A program may catch the error, and train.
    EXPECT_EQ(model.fit(rows_of(20).batch(10), into(folder / "free")).epoch.size(), 3u);
    EXPECT_FALSE(std::filesystem::exists(folder / "free"));
  }
}

TEST(FitBackupsTest, NoFolderStaysThatWasMadeForThem) {
  const TempDirectory folder;
  const Dataset data = rows_of(20).batch(10);
  Model model = compiled();
  model.fit(data, into(folder / "a/b/backup"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  // Nor after a run that was stopped.
  {
    Model stopped = compiled();
    EXPECT_THROW(stopped.fit(data, into(folder / "a/b/backup", 1)), std::exception);
  }
  Model again = compiled();
  again.fit(data, into(folder / "a/b/backup"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  // What was there stays, and so does what others put next to it.
  std::filesystem::create_directories(folder / "mine");
  struct Writes : Callback {
    explicit Writes(std::string path) : path(std::move(path)) {}
    void on_epoch_end(int64_t epoch, Logs&) override {
      if (epoch > 0) local_file_system().write_atomically(path, "x").value();
    }
    const std::string path;
  };
  FitOptions options = into(folder / "mine/c/backup");
  options.callbacks.push_back(std::make_shared<Writes>(folder / "mine/c/other"));
  Model third = compiled();
  third.fit(data, options);
  EXPECT_TRUE(std::filesystem::exists(folder / "mine/c/other"));
  EXPECT_FALSE(std::filesystem::exists(folder / "mine/c/backup"));
  Model fourth = compiled();
  fourth.fit(data, into(folder / "mine/backup"));
  EXPECT_TRUE(std::filesystem::exists(folder / "mine"));
}

}  // namespace
}  // namespace muster::inline v0_1::keras
