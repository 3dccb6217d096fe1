// What a killed or failed save leaves: the old checkpoint or the new one, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/checkpoint/lease.h"
#include "muster/checkpoint/manager.h"
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
using ::testing::UnorderedElementsAre;

TEST(CheckpointManagerCrash, LeftoversOfKilledSavesAreRemovedAndOthersAreNot) {
  TempDirectory directory;
  // A child that has come and gone: its id belongs to nobody.
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const auto leave = [&](const std::string& name) { overwrite(directory / name, "x"); };
  leave(fmt::format(".model.ckpt-7.safetensors.staging-{}-3", gone));
  leave(fmt::format(".checkpoint.staging-{}-4", gone));
  const std::string alive = fmt::format(".model.ckpt-7.safetensors.staging-{}-3", ::getppid());
  const std::string foreign = fmt::format(".notes.txt.staging-{}-1", gone);
  leave(alive);
  leave(foreign);
  leave(".model.ckpt-7.txt");
  CheckpointManager manager(directory.path());
  manager.save(make_checkpoint(8));
  EXPECT_THAT(names_in(directory.path()), UnorderedElementsAre(alive, foreign, ".model.ckpt-7.txt",
                                                               "checkpoint", file_name(8)));
  // Two days later no process writes it, also if another process has that id now.
  ManualClock later({.wall_seconds = system_clock().wall_seconds() + 2 * 24 * 3600});
  CheckpointManager(directory.path(), {.clock = &later}).save(make_checkpoint(9));
  EXPECT_FALSE(files().exists(directory / alive).value());
}

// The law of promise 4: a crash at any change leaves the old checkpoint or the new one, whole, and
// nothing that the next saves do not tidy.
void crash_everywhere(int64_t new_step, int64_t new_seed) {
  int crashes = 0;
  for (int64_t at = 0;; ++at) {
    TempDirectory directory;
    CheckpointManager before(directory.path(), {.keep_checkpoint_max = 2});
    for (int64_t step : {10, 20}) before.save(make_checkpoint(step));

    const Checkpoint fresh = make_checkpoint(new_step, new_seed);
    FaultFileSystem faulty(files(), {.crash_at = at});
    bool threw = false;
    try {
      CheckpointManager(directory.path(), {.fs = &faulty, .keep_checkpoint_max = 2}).save(fresh);
    } catch (const Error&) {
      threw = true;
    }
    CheckpointManager after(directory.path(), {.keep_checkpoint_max = 2});
    const auto loaded = after.load_latest();
    ASSERT_TRUE(loaded.has_value()) << "crash at " << at;
    EXPECT_TRUE(loaded->skipped.empty()) << "crash at " << at;
    const bool is_new = same(loaded->checkpoint, fresh);
    ASSERT_TRUE(is_new || same(loaded->checkpoint, make_checkpoint(20))) << "crash at " << at;
    if (!threw) {
      EXPECT_TRUE(is_new) << "crash at " << at;
    }

    // The run resumes, gets to that step again, and continues.
    after.save(make_checkpoint(new_step, new_seed));
    after.save(make_checkpoint(40));
    EXPECT_THAT(names_in(directory.path()),
                ElementsAre("checkpoint", file_name(new_step), file_name(40)))
        << "crash at " << at;
    EXPECT_TRUE(same(after.load_latest()->checkpoint, make_checkpoint(40)));
    if (!faulty.crashed()) break;
    ++crashes;
  }
  // Opening, writing and committing two files are more changes than this.
  EXPECT_GE(crashes, 8);
}

TEST(CheckpointManagerCrash, CrashAtAnyChangeOfASave) { crash_everywhere(30, 0); }
TEST(CheckpointManagerCrash, CrashAtAnyChangeOfASaveOfTheSameStep) { crash_everywhere(20, 5); }

TEST(CheckpointManagerCrash, CrashDuringTheFirstSave) {
  for (int64_t at = 0;; ++at) {
    TempDirectory directory;
    FaultFileSystem faulty(files(), {.crash_at = at});
    try {
      CheckpointManager(directory / "new", {.fs = &faulty}).save(make_checkpoint(0));
    } catch (const Error&) {
    }
    const auto loaded = CheckpointManager(directory / "new").load_latest();
    if (loaded) {
      EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(0))) << "crash at " << at;
    }
    if (!faulty.crashed()) {
      EXPECT_TRUE(loaded.has_value());
      break;
    }
  }
}

TEST(CheckpointManagerCrash, FullDiskAtAnyChangeKeepsWhatWasThere) {
  int failures = 0;
  for (int64_t at = 0;; ++at) {
    TempDirectory directory;
    CheckpointManager(directory.path(), {.keep_checkpoint_max = 2}).save(make_checkpoint(10));
    CheckpointManager(directory.path(), {.keep_checkpoint_max = 2}).save(make_checkpoint(20));
    const std::string state = files().read_file(directory / "checkpoint").value();

    FaultFileSystem faulty(files(), {.no_space_from = at});
    CheckpointManager manager(directory.path(), {.fs = &faulty, .keep_checkpoint_max = 2});
    bool threw = false;
    try {
      manager.save(make_checkpoint(30));
    } catch (const Error& error) {
      threw = true;
      EXPECT_EQ(exit_code(error.kind()), 2) << error.what();
      EXPECT_THAT(error.message(), HasSubstr("model.ckpt-30"));
      EXPECT_THAT(error.hint(), HasSubstr("free space"));
      EXPECT_THAT(error.hint(), HasSubstr("model.ckpt-20 are untouched"));
    }
    if (!threw) break;
    ++failures;
    EXPECT_THAT(names_in(directory.path()), ElementsAre("checkpoint", file_name(10), file_name(20)))
        << "full at " << at;
    EXPECT_EQ(files().read_file(directory / "checkpoint").value(), state);
    EXPECT_TRUE(same(manager.load_latest()->checkpoint, make_checkpoint(20)));
    faulty.set_plan({});
    manager.save(make_checkpoint(30));
    EXPECT_TRUE(same(manager.load_latest()->checkpoint, make_checkpoint(30)));
  }
  EXPECT_GE(failures, 4);

  TempDirectory directory;
  FaultFileSystem full(files(), {.no_space_from = 0});
  const Error error =
      error_of([&] { CheckpointManager(directory.path(), {.fs = &full}).ensure_writable(); });
  EXPECT_EQ(exit_code(error.kind()), 2);
  EXPECT_THAT(error.hint(), HasSubstr("free space"));
}

TEST(CheckpointManagerCrash, OldOnesThatCannotBeDeletedAreTriedAgain) {
  // A file system in which nothing can be deleted for a while.
  class Sticky : public FaultFileSystem {
   public:
    using FaultFileSystem::FaultFileSystem;
    Status remove(const std::string& path) override {
      return sticky ? Status(from_errno(EBUSY, "cannot remove '" + path + "'"))
                    : FaultFileSystem::remove(path);
    }
    bool sticky = true;
  };
  TempDirectory directory;
  Sticky sticky(files());
  CheckpointManager manager(directory.path(), {.fs = &sticky, .keep_checkpoint_max = 1});
  for (int64_t step : {1, 2, 3}) manager.save(make_checkpoint(step));
  EXPECT_THAT(steps_of(manager), ElementsAre(3));
  EXPECT_EQ(names_in(directory.path()).size(), 4u);
  sticky.sticky = false;
  manager.save(make_checkpoint(4));
  EXPECT_THAT(names_in(directory.path()), ElementsAre("checkpoint", file_name(4)));
}

TEST(CheckpointManagerCrash, LeasesThatADiskCannotReadKeepAll) {
  // A disk with I/O errors where the leases are looked for.
  class Failing : public FaultFileSystem {
   public:
    using FaultFileSystem::FaultFileSystem;
    Result<std::vector<std::string>> list_directory(const std::string& path) override {
      if (fails == "list" && ++lists == 3) return from_errno(EIO, "cannot list '" + path + "'");
      return FaultFileSystem::list_directory(path);
    }
    Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
      if (fails == "read" && path.ends_with(".lease"))
        return from_errno(EIO, "cannot open '" + path + "'");
      return FaultFileSystem::open_reader(path);
    }
    std::string fails;
    int lists = 0;  // of a save: its checkpoints, leftovers, leases
  };
  for (const char* fails : {"list", "read"}) {
    TempDirectory directory;
    const Lease lease(directory.path(), "evaluator", {.pinned = {"model.ckpt-1"}});
    CheckpointManager(directory.path()).save(make_checkpoint(1));
    Failing disk(files());
    CheckpointManager manager(directory.path(), {.fs = &disk, .keep_checkpoint_max = 1});
    disk.fails = fails;
    manager.save(make_checkpoint(2));
    if (disk.fails == "list") {
      EXPECT_EQ(disk.lists, 3);
    }
    EXPECT_TRUE(files().exists(directory / file_name(1)).value()) << fails;
  }
}

// A save that was killed after its file and before the list leaves a file that no list names. A run
// whose saves depend on the time comes to other steps, and deletes it; one that somebody removed
// from the list by hand stays.
TEST(CheckpointManagerCrash, AFileThatNoListNamesIsDeletedIfItIsYoungerThanTheList) {
  for (const bool by_hand : {false, true}) {
    TempDirectory directory;
    const auto save = [&](int64_t step) {
      CheckpointManager(directory.path(), {.keep_checkpoint_max = 1}).save(make_checkpoint(step));
    };
    save(1);
    const std::string list = files().read_file(directory / "checkpoint").value();
    class AfterTheFile : public FaultFileSystem {
     public:
      using FaultFileSystem::FaultFileSystem;
      Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
        if (path.ends_with("checkpoint")) crash();
        return FaultFileSystem::open_staged(path);
      }
    };
    AfterTheFile disk(files());
    const auto save_and_die = [&] {
      CheckpointManager(directory.path(), {.fs = &disk}).save(make_checkpoint(3));
    };
    EXPECT_THROW(save_and_die(), Error);
    if (by_hand) overwrite(directory / "checkpoint", list);
    // Times of files have a step of some milliseconds, which may be longer than all of this.
    using std::filesystem::last_write_time;
    last_write_time(directory / "checkpoint", last_write_time(directory / file_name(3)) +
                                                  std::chrono::seconds(by_hand ? 1 : -1));
    EXPECT_TRUE(files().exists(directory / file_name(3)).value());
    save(2);
    EXPECT_EQ(files().exists(directory / file_name(3)).value(), by_hand);
    EXPECT_TRUE(
        same(CheckpointManager(directory.path()).load_latest()->checkpoint, make_checkpoint(2)));
  }
}

// A real process, really killed, at many moments of its saves.
TEST(CheckpointManagerCrash, KilledProcessLeavesALoadableDirectory) {
  TempDirectory directory;
  int64_t newest = -1;
  for (int round = 0; round < 30; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 3});
        const auto start = manager.load_latest();
        int64_t step = start ? start->checkpoint.global_step : -1;
        for (int n = 0; n < 5000; ++n) {
          manager.save(make_checkpoint(++step));
          if (n == 0 && ::write(ends[1], "x", 1) != 1) ::_exit(1);
        }
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    char first_save = 0;  // or the end of the pipe, when the child failed
    const bool saved = ::read(ends[0], &first_save, 1) == 1;
    ::close(ends[0]);
    // Another moment of a save each round: from the first to one about 20 ms later.
    ::usleep(static_cast<useconds_t>(717 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(saved) << "the saving process failed in round " << round;

    const auto loaded =
        CheckpointManager(directory.path(), {.keep_checkpoint_max = 3}).load_latest();
    ASSERT_TRUE(loaded.has_value()) << "round " << round;
    const int64_t step = loaded->checkpoint.global_step;
    ASSERT_GT(step, newest) << "round " << round;
    newest = step;
    EXPECT_TRUE(loaded->skipped.empty()) << "round " << round;
    EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(step))) << "round " << round;
  }
  CheckpointManager last(directory.path(), {.keep_checkpoint_max = 3});
  for (int n = 0; n < 3; ++n) last.save(make_checkpoint(++newest));
  EXPECT_THAT(names_in(directory.path()),
              UnorderedElementsAre("checkpoint", file_name(newest - 2), file_name(newest - 1),
                                   file_name(newest)));
}

}  // namespace
}  // namespace muster::inline v0_1
