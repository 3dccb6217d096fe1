#include "muster/checkpoint/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "muster/base/temp_directory.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using testing::file_name;
using testing::files;
using ::testing::HasSubstr;
using testing::make_checkpoint;
using testing::names_in;
using testing::overwrite;
using testing::same;
using testing::steps_of;
using Names = std::vector<std::string>;

void flip_last_byte(const std::string& path) {
  std::string content = files().read_file(path).value();
  content.back() = static_cast<char>(content.back() ^ 1);
  overwrite(path, content);
}

TEST(CheckpointManager, SavesAndFindsTheNewest) {
  TempDirectory directory;
  const std::string model_dir = directory / "deep/model";
  CheckpointManager manager(model_dir);
  EXPECT_EQ(manager.latest(), std::nullopt);
  EXPECT_FALSE(manager.load_latest().has_value());
  EXPECT_THAT(manager.all(), ElementsAre());
  manager.ensure_writable();
  EXPECT_THAT(names_in(model_dir), ElementsAre());

  EXPECT_EQ(manager.save(make_checkpoint(0)), model_dir + "/model.ckpt-0");
  EXPECT_EQ(manager.save(make_checkpoint(120)), model_dir + "/model.ckpt-120");
  EXPECT_EQ(manager.latest(), model_dir + "/model.ckpt-120");
  EXPECT_THAT(manager.all(),
              ElementsAre(model_dir + "/model.ckpt-0", model_dir + "/model.ckpt-120"));
  const auto loaded = manager.load_latest();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->prefix, model_dir + "/model.ckpt-120");
  EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(120)));
  EXPECT_TRUE(loaded->skipped.empty());
  EXPECT_TRUE(same(manager.load(model_dir + "/model.ckpt-0"), make_checkpoint(0)));

  // Names in the state file are relative: the directory may be moved.
  ASSERT_TRUE(files().rename(model_dir, directory / "moved").ok());
  EXPECT_TRUE(
      same(CheckpointManager(directory / "moved").load_latest()->checkpoint, make_checkpoint(120)));
}

TEST(CheckpointManager, StateFileText) {
  TempDirectory directory;
  ManualClock clock;
  CheckpointManager manager(directory.path(), {.clock = &clock, .keep_checkpoint_max = 2});
  for (int64_t step : {10, 20, 30}) {
    manager.save(make_checkpoint(step));
    clock.advance(std::chrono::seconds(60));
  }
  EXPECT_EQ(files().read_file(directory / "checkpoint").value(),
            "model_checkpoint_path: \"model.ckpt-30\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-20\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-30\"\n"
            "all_model_checkpoint_timestamps: 1700000060\n"
            "all_model_checkpoint_timestamps: 1700000120\n"
            "last_preserved_timestamp: 1700000000\n"
            "# retired: \"model.ckpt-10\"\n");
  EXPECT_THAT(names_in(directory.path()), ElementsAre("checkpoint", file_name(20), file_name(30)));
}

// The state file may have come with a foreign folder.
TEST(CheckpointManager, TheStateFileReachesNothingOutsideOfItsDirectory) {
  TempDirectory directory;
  const std::string model_dir = directory / "model", secret = directory / "secret.safetensors";
  ASSERT_TRUE(files().make_directories(directory / "model/sub").ok());
  overwrite(secret, "mine");
  overwrite(directory / "model/sub/kept.safetensors", "mine");
  CheckpointManager manager(model_dir);
  manager.save(make_checkpoint(10));
  for (const std::string& name :
       {std::string("../secret"), directory / "secret", std::string("sub/kept"),
        std::string("sub/../../secret"), std::string("."), std::string(".."),
        "file://" + directory.path() + "/secret", std::string("http://127.0.0.1:1/secret"),
        std::string("s3://bucket/secret")}) {
    overwrite(model_dir + "/checkpoint",
              "model_checkpoint_path: \"model.ckpt-10\"\n"
              "all_model_checkpoint_paths: \"" +
                  name +
                  "\"\n"
                  "# retired: \"" +
                  name + "\"\n");
    CheckpointManager other(model_dir, {.keep_checkpoint_max = 1});
    other.save(make_checkpoint(20));
    EXPECT_TRUE(files().exists(secret).value()) << name;
    EXPECT_TRUE(files().exists(directory / "model/sub/kept.safetensors").value()) << name;
    EXPECT_THAT(steps_of(other), ElementsAre(20));
    manager.save(make_checkpoint(10));
  }
  // A name that leads outside is not a checkpoint either.
  overwrite(model_dir + "/checkpoint",
            "model_checkpoint_path: \"" + (directory / "secret") + "\"\n");
  EXPECT_EQ(CheckpointManager(model_dir).load_latest()->prefix, model_dir + "/model.ckpt-20");
}

TEST(CheckpointManager, SameStepReplaces) {
  TempDirectory directory;
  CheckpointManager manager(directory.path());
  manager.save(make_checkpoint(10));
  manager.save(make_checkpoint(20, 1));
  manager.save(make_checkpoint(20, 2));
  EXPECT_THAT(steps_of(manager), ElementsAre(10, 20));
  EXPECT_TRUE(same(manager.load_latest()->checkpoint, make_checkpoint(20, 2)));
}

TEST(CheckpointManager, KeepsAsManyAsAskedAndPurgesTheBacklog) {
  TempDirectory directory;
  for (int64_t step = 1; step <= 8; ++step) {
    CheckpointManager(directory.path(), {.keep_checkpoint_max = 0}).save(make_checkpoint(step));
  }
  CheckpointManager all(directory.path(), {.keep_checkpoint_max = 0});
  EXPECT_THAT(steps_of(all), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  CheckpointManager three(directory.path(), {.keep_checkpoint_max = 3});
  three.save(make_checkpoint(9));
  EXPECT_THAT(steps_of(three), ElementsAre(7, 8, 9));
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre("checkpoint", file_name(7), file_name(8), file_name(9)));
  CheckpointManager one(directory.path(), {.keep_checkpoint_max = 1});
  one.save(make_checkpoint(4));  // an older step, but the newest save
  EXPECT_THAT(names_in(directory.path()), ElementsAre("checkpoint", file_name(4)));
  EXPECT_EQ(one.load_latest()->checkpoint.global_step, 4);
}

TEST(CheckpointManager, KeepsOneEverySoManyHoursForGood) {
  TempDirectory directory;
  ManualClock clock;
  CheckpointManager manager(
      directory.path(),
      {.clock = &clock, .keep_checkpoint_max = 2, .keep_checkpoint_every_n_hours = 1});
  // One every 30 minutes. The first counts as hour 0 without being kept; then 2 (at 1 h), 4 (at 2
  // h) and 6 (at 3 h) are the ones a full hour after the one before.
  for (int64_t step = 0; step <= 8; ++step) {
    manager.save(make_checkpoint(step));
    clock.advance(std::chrono::minutes(30));
  }
  EXPECT_THAT(steps_of(manager), ElementsAre(7, 8));
  EXPECT_THAT(names_in(directory.path()), ElementsAre("checkpoint", file_name(2), file_name(4),
                                                      file_name(6), file_name(7), file_name(8)));
  // They are the last resort when the named ones are damaged.
  flip_last_byte(directory / file_name(8));
  flip_last_byte(directory / file_name(7));
  const auto loaded = manager.load_latest();
  EXPECT_EQ(loaded->checkpoint.global_step, 6);
  EXPECT_EQ(loaded->skipped.size(), 2u);
}

// The machine's date was years in the future for some saves of a run, and was set right later.
TEST(CheckpointManager, KeepsOneEverySoManyHoursAfterADateThatWasWrong) {
  TempDirectory directory;
  ManualClock wrong({.wall_seconds = 1'930'000'000}), right;
  int64_t step = 0;
  for (ManualClock* clock : {&wrong, &right}) {
    CheckpointManager manager(
        directory.path(),
        {.clock = clock, .keep_checkpoint_max = 1, .keep_checkpoint_every_n_hours = 1});
    for (int saves = 0; saves < 4; ++saves) {
      manager.save(make_checkpoint(step++));
      clock->advance(std::chrono::hours(1));
    }
  }
  // 0 and 4 are hour 0 of the two dates, and 7 is the newest.
  EXPECT_THAT(names_in(directory.path()),
              ElementsAre("checkpoint", file_name(1), file_name(2), file_name(3), file_name(5),
                          file_name(6), file_name(7)));
}

TEST(CheckpointManager, PinnedIsNotDeleted) {
  TempDirectory directory;
  CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 1});
  const std::string first = manager.save(make_checkpoint(1));
  CheckpointManager::Pin pin = manager.pin(first);
  CheckpointManager::Pin again = manager.pin(first + ".safetensors");
  manager.save(make_checkpoint(2));
  manager.save(make_checkpoint(3));
  EXPECT_THAT(steps_of(manager), ElementsAre(3));
  EXPECT_TRUE(same(manager.load(first), make_checkpoint(1)));
  again.reset();
  manager.save(make_checkpoint(4));
  EXPECT_TRUE(files().exists(directory / file_name(1)).value());
  pin.reset();
  manager.save(make_checkpoint(5));
  EXPECT_THAT(names_in(directory.path()), ElementsAre("checkpoint", file_name(5)));
  EXPECT_EQ(error_of([&] { (void)manager.pin(first); }).kind(), ErrorKind::kNotFound);
}

TEST(CheckpointManager, DamagedNewestFallsBackAndSaysSo) {
  TempDirectory directory;
  CheckpointManager manager(directory.path());
  for (int64_t step : {10, 20, 30}) manager.save(make_checkpoint(step));
  const std::string newest = directory / file_name(30);
  const std::string good = files().read_file(newest).value();

  const auto expect_fallback = [&](int64_t step, const std::string& names) {
    ::testing::internal::CaptureStderr();
    const auto loaded = manager.load_latest();
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(loaded.has_value());
    EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(step)));
    EXPECT_FALSE(loaded->skipped.empty());
    EXPECT_THAT(loaded->skipped[0], HasSubstr(names));
    EXPECT_THAT(said, HasSubstr(names));
  };
  flip_last_byte(newest);
  expect_fallback(20, newest);
  for (size_t length = 0; length < good.size(); length += 1 + good.size() / 20) {
    overwrite(newest, good.substr(0, length));
    expect_fallback(20, newest);
  }
  overwrite(directory / file_name(20), "");
  expect_fallback(10, file_name(30));
  flip_last_byte(directory / file_name(10));
  const Error error = error_of([&] { (void)manager.load_latest(); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  for (int64_t step : {10, 20, 30}) EXPECT_THAT(error.message(), HasSubstr(file_name(step)));

  // A run that fell back continues and replaces the damaged one when it gets there.
  manager.save(make_checkpoint(30));
  EXPECT_TRUE(same(manager.load_latest()->checkpoint, make_checkpoint(30)));
}

TEST(CheckpointManager, FileThatIsGoneIsPassedOver) {
  TempDirectory directory;
  CheckpointManager manager(directory.path());
  for (int64_t step : {10, 20, 30}) manager.save(make_checkpoint(step));
  files().remove(directory / file_name(30)).value();
  EXPECT_EQ(manager.latest(), directory / "model.ckpt-20");
  EXPECT_EQ(manager.load_latest()->checkpoint.global_step, 20);
  EXPECT_THAT(steps_of(manager), ElementsAre(10, 20));
}

TEST(CheckpointManager, StateFileThatIsMissingOrDamagedIsReplacedByTheDirectory) {
  const std::string damaged = "model_checkpoint_path: \"model.ck";
  const std::string stale = "model_checkpoint_path: \"model.ckpt-7\"\n";
  for (const std::string& text : {std::string(), damaged, stale}) {
    TempDirectory directory;
    CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 2});
    for (int64_t step : {9, 10}) manager.save(make_checkpoint(step));
    files().remove(directory / "checkpoint").value();
    if (!text.empty()) overwrite(directory / "checkpoint", text);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(manager.latest(), directory / "model.ckpt-10");
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(directory / "checkpoint"));
    EXPECT_EQ(manager.load_latest()->checkpoint.global_step, 10);
    EXPECT_THAT(steps_of(manager), ElementsAre(9, 10));
    manager.save(make_checkpoint(11));
    EXPECT_THAT(names_in(directory.path()),
                ElementsAre("checkpoint", file_name(10), file_name(11)));
    EXPECT_THAT(steps_of(CheckpointManager(directory.path())), ElementsAre(10, 11));
  }
}

// No call waits for a pipe, and a file that is none of ours stops no run.
TEST(CheckpointManager, AStateFileThatIsNoneStopsNothing) {
  const std::string letters(300, 'x');
  const std::vector<std::function<void(const std::string&)>> damages = {
      [&](const std::string& path) {
        overwrite(path, "model_checkpoint_path: \"" + letters + "\"\n");
      },
      [](const std::string& path) {
        overwrite(path, "model_checkpoint_path: \"" + std::string(100'000, 'x') + "\"\n");
      },
      [](const std::string& path) {
        overwrite(path, "");
        ASSERT_EQ(::truncate(path.c_str(), 100 << 20), 0);
      },
      [](const std::string& path) { ASSERT_EQ(::mkdir(path.c_str(), 0700), 0); },
      [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
      [](const std::string& path) { ASSERT_EQ(::symlink(path.c_str(), path.c_str()), 0); },
      [](const std::string& path) { overwrite(path, std::string(1000, '\0')); },
  };
  for (const auto& damage : damages) {
    TempDirectory directory;
    CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 2});
    for (int64_t step : {9, 10}) manager.save(make_checkpoint(step));
    files().remove(directory / "checkpoint").value();
    damage(directory / "checkpoint");
    EXPECT_EQ(manager.latest(), directory / "model.ckpt-10");
    EXPECT_EQ(manager.load_latest()->checkpoint.global_step, 10);
    manager.ensure_writable();
    manager.save(make_checkpoint(11));
    EXPECT_THAT(steps_of(CheckpointManager(directory.path())), ElementsAre(10, 11));
    manager.save(make_checkpoint(12));
    EXPECT_THAT(names_in(directory.path()),
                ElementsAre("checkpoint", file_name(11), file_name(12)));
    EXPECT_EQ(CheckpointManager(directory.path()).load_latest()->checkpoint.global_step, 12);
  }
}

TEST(CheckpointManager, ReadsAStateFileThatTensorFlowStyleToolsWrote) {
  TempDirectory directory;
  CheckpointManager manager(directory.path());
  for (int64_t step : {1, 2}) manager.save(make_checkpoint(step));
  // Rolled back by hand: only the first line counts.
  overwrite(directory / "checkpoint", "model_checkpoint_path: \"model.ckpt-1\"\n");
  EXPECT_EQ(manager.load_latest()->checkpoint.global_step, 1);
  // A checkpoint we cannot read is an error, never a silent start from nothing.
  overwrite(directory / "checkpoint", "model_checkpoint_path: \"model.ckpt-9\"\n");
  overwrite(directory / "model.ckpt-9.index", "x");
  const Error error = error_of([&] { (void)manager.load_latest(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("TensorFlow"));
}

TEST(CheckpointManager, UnusableDirectoryIsNamedBeforeAnythingRuns) {
  TempDirectory directory;
  overwrite(directory / "file", "x");
  for (const std::string& model_dir : {directory / "file", directory / "file/below"}) {
    CheckpointManager manager(model_dir);
    const Error error = error_of([&] { manager.ensure_writable(); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("'" + model_dir + "'"));
  }
  EXPECT_EQ(error_of([] { CheckpointManager(""); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([] { CheckpointManager("x", {.keep_checkpoint_max = -1}); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([] { CheckpointManager("x", {.keep_checkpoint_every_n_hours = -1}); }).kind(),
            ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1
