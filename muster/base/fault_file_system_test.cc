#include "muster/base/fault_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

TEST(FaultFileSystem, AtomicWriteIsWholeOrAbsentWhereverItCrashes) {
  bool saw_old = false, saw_new = false;
  int64_t points = 0;
  for (;; ++points) {
    TempDirectory temp;
    local_file_system().write_atomically(temp / "a", "old").value();
    FaultFileSystem files(local_file_system(), {.crash_at = points});
    const Status written = files.write_atomically(temp / "a", "newer");
    const std::string content = local_file_system().read_file(temp / "a").value();
    EXPECT_TRUE(content == "old" || content == "newer") << content;
    saw_old |= content == "old";
    if (!files.crashed()) {
      EXPECT_TRUE(written.ok());
      break;
    }
    EXPECT_FALSE(written.ok());
    saw_new |= content == "newer";
    EXPECT_FALSE(files.read_file(temp / "a").ok()) << "a crashed machine answers nothing";
  }
  EXPECT_EQ(points, 4);  // open, append, before the commit, after it
  EXPECT_TRUE(saw_old);
  EXPECT_TRUE(saw_new);
}

TEST(FaultFileSystem, CrashLeavesTheStagedFileAsAMachineWould) {
  TempDirectory temp;
  FaultFileSystem files(local_file_system(), {.crash_at = 2});
  EXPECT_FALSE(files.write_atomically(temp / "a", "text").ok());
  const auto names = local_file_system().list_directory(temp.path()).value();
  ASSERT_EQ(names.size(), 1u);
  EXPECT_TRUE(is_staging_name(names[0]));
}

TEST(FaultFileSystem, CrashDropsWhatWasNotSynced) {
  for (const bool keep : {false, true}) {
    TempDirectory temp;
    FaultFileSystem files(local_file_system(), {.crash_at = 4, .keep_unsynced = keep});
    auto writer = files.open_writer(temp / "log").value();
    writer->append(bytes_of("synced")).value();
    writer->sync().value();
    writer->append(bytes_of("+flushed")).value();
    writer->flush().value();
    EXPECT_FALSE(writer->append(bytes_of("+torn")).ok());
    EXPECT_FALSE(writer->append(bytes_of("+later")).ok());
    EXPECT_EQ(local_file_system().read_file(temp / "log").value(),
              keep ? "synced+flushed+t" : "synced");
  }
}

TEST(FaultFileSystem, DroppedDataFollowsARename) {
  TempDirectory temp;
  FaultFileSystem files(local_file_system());
  auto writer = files.open_writer(temp / "a").value();
  writer->append(bytes_of("lost")).value();
  writer->close().value();
  files.rename(temp / "a", temp / "b").value();
  files.crash();
  EXPECT_EQ(local_file_system().read_file(temp / "b").value(), "");
}

TEST(FaultFileSystem, AFullDiskIsNotTriedAgainAndTheOldFileStays) {
  for (int64_t from = 0; from < 2; ++from) {
    TempDirectory temp;
    local_file_system().write_atomically(temp / "a", "old").value();
    FaultFileSystem files(local_file_system(), {.no_space_from = from});
    const Status written = files.write_atomically(temp / "a", "newer");
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(exit_code(written.error().kind()), 2);
    EXPECT_THAT(written.error().message(), HasSubstr("No space left"));
    EXPECT_EQ(files.read_file(temp / "a").value(), "old");
    EXPECT_EQ(files.list_directory(temp.path()).value().size(), 1u);
    files.set_plan({});
    files.write_atomically(temp / "a", "newer").value();
  }
}

}  // namespace
}  // namespace muster::inline v0_1
