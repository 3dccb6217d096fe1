#include "muster/base/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/base/same_file.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FileSystem, WritesAtomicallyAndReadsBack) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  const std::string path = temp / "a";
  files.write_atomically(path, "first").value();
  files.write_atomically(path, "second one").value();
  EXPECT_EQ(files.read_file(path).value(), "second one");
  EXPECT_EQ(files.read_file("file://" + path).value(), "second one");
  EXPECT_EQ(files.file_size(path).value(), 10u);
  EXPECT_EQ(files.read_range(path, 7, 3).value(), "one");
  // Nothing is left next to it.
  EXPECT_THAT(files.list_directory(temp.path()).value(), ElementsAre("a"));
}

TEST(FileSystem, RangePastTheEndIsCorrupt) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  files.write_atomically(temp / "a", "0123456789").value();
  for (const auto& [offset, length] :
       std::vector<std::pair<uint64_t, uint64_t>>{{8, 3}, {11, 0}, {1, ~0ull}}) {
    const auto range = files.read_range(temp / "a", offset, length);
    ASSERT_FALSE(range.ok());
    EXPECT_EQ(range.error().kind(), ErrorKind::kCorrupt);
  }
  auto reader = files.open_reader(temp / "a").value();
  std::string out(4, '?');
  EXPECT_EQ(reader->read_at(8, std::as_writable_bytes(std::span(out))).value(), 2u);
  EXPECT_EQ(out, "89??");
  const Status exact = reader->read_exactly_at(8, std::as_writable_bytes(std::span(out)));
  EXPECT_THAT(exact.error().message(), HasSubstr("ends at byte 10"));
}

TEST(FileSystem, StagedFileIsInvisibleUntilCommit) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  {
    auto writer = files.open_staged(temp / "a").value();
    writer->append(bytes_of("half")).value();
    writer->sync().value();
    EXPECT_FALSE(files.exists(temp / "a").value());
    const auto names = files.list_directory(temp.path()).value();
    ASSERT_EQ(names.size(), 1u);
    EXPECT_TRUE(is_staging_name(names[0])) << names[0];
    writer->append(bytes_of(" whole")).value();
    writer->commit().value();
    EXPECT_EQ(files.read_file(temp / "a").value(), "half whole");
    EXPECT_EQ(writer->append(bytes_of("x")).error().kind(), ErrorKind::kInternal);
    EXPECT_FALSE(writer->commit().ok());
  }
  {
    auto dropped = files.open_staged(temp / "a").value();
    dropped->append(bytes_of("never")).value();
  }
  EXPECT_EQ(files.read_file(temp / "a").value(), "half whole");
  EXPECT_THAT(files.list_directory(temp.path()).value(), ElementsAre("a"));
}

TEST(FileSystem, LeftoversOfAKilledWriterGoAndLiveOnesStay) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  auto alive = files.open_staged(temp / "a").value();
  alive->append(bytes_of("whole")).value();
  const auto kept = files.list_directory(temp.path()).value();
  const pid_t child = ::fork();
  if (child == 0) {
    // Killed in the middle: nothing is tidied. It does not inherit the lock of the other.
    for (int fd = 3; fd < 256; ++fd) ::close(fd);
    for (const char* name : {"a", "other"}) {
      if (auto writer = files.open_staged(temp / name); writer.ok()) (void)writer.value().release();
    }
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(files.list_directory(temp.path()).value().size(), 3u);
  auto next = files.open_staged(temp / "a").value();
  auto names = files.list_directory(temp.path()).value();
  // Both writers of "a", and what was left of another file.
  ASSERT_EQ(names.size(), 3u);
  EXPECT_NE(std::find(names.begin(), names.end(), kept[0]), names.end());
  next->append(bytes_of("second")).value();
  alive->commit().value();
  EXPECT_EQ(files.read_file(temp / "a").value(), "whole");
  next->commit().value();
  EXPECT_EQ(files.read_file(temp / "a").value(), "second");
  files.write_atomically(temp / "other", "x").value();
  EXPECT_THAT(files.list_directory(temp.path()).value(), ElementsAre("a", "other"));
}

TEST(FileSystem, FailedCommitLeavesNothingBehind) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  files.make_directories(temp / "name/inside").value();
  auto writer = files.open_staged(temp / "name").value();
  EXPECT_FALSE(writer->commit().ok());
  EXPECT_THAT(files.list_directory(temp.path()).value(), ElementsAre("name"));
}

TEST(FileSystem, WriterContinuesAnExistingFile) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  for (const char* text : {"one,", "two"}) {
    auto writer = files.open_writer(temp / "log").value();
    writer->append(bytes_of(text)).value();
    writer->flush().value();
    writer->sync().value();
    writer->close().value();
    writer->close().value();
    EXPECT_FALSE(writer->append(bytes_of("late")).ok());
  }
  EXPECT_EQ(files.read_file(temp / "log").value(), "one,two");
}

TEST(FileSystem, ReaderSeesAFileGrow) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  auto writer = files.open_writer(temp / "log").value();
  auto reader = files.open_reader(temp / "log").value();
  EXPECT_EQ(reader->size().value(), 0u);
  writer->append(bytes_of("abc")).value();
  EXPECT_EQ(reader->size().value(), 3u);
}

TEST(FileSystem, DirectoriesAndRemoval) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  files.make_directories(temp / "a/b/c/").value();
  files.make_directories(temp / "a/b").value();
  files.write_atomically(temp / "a/b/z", "1").value();
  files.write_atomically(temp / "a/b/y", "").value();
  EXPECT_THAT(files.list_directory(temp / "a/b").value(), ElementsAre("c", "y", "z"));
  EXPECT_TRUE(files.info(temp / "a").value().is_directory);
  const auto entries = files.list_entries(temp / "a/b").value();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_TRUE(entries[0].info.is_directory);
  EXPECT_EQ(entries[2].name, "z");
  EXPECT_EQ(entries[2].info.size, 1u);
  EXPECT_EQ(files.list_entries(temp / "none").error().kind(), ErrorKind::kNotFound);
  files.rename(temp / "a/b/z", temp / "a/moved").value();
  EXPECT_EQ(files.read_file(temp / "a/moved").value(), "1");
  EXPECT_FALSE(files.remove(temp / "a").ok());
  files.remove(temp / "a/moved").value();
  EXPECT_EQ(files.remove(temp / "a/moved").error().kind(), ErrorKind::kNotFound);
  files.remove_tree(temp / "a").value();
  EXPECT_FALSE(files.exists(temp / "a").value());
  files.remove_tree(temp / "a").value();
  files.make_directories(temp / "kept").value();
  files.write_atomically(temp / "kept/file", "1").value();
  files.make_directories(temp / "tree").value();
  std::filesystem::create_directory_symlink(temp / "kept", temp / "tree/link");
  files.remove_tree(temp / "tree").value();
  EXPECT_FALSE(files.exists(temp / "tree").value());
  EXPECT_EQ(files.read_file(temp / "kept/file").value(), "1");
  files.write_atomically(temp / "file", "1").value();
  EXPECT_EQ(files.make_directories(temp / "file").error().kind(), ErrorKind::kInvalidArgument);
  std::filesystem::create_symlink(temp / "nowhere", temp / "link");
  EXPECT_THAT(files.make_directories(temp / "link").error().message(),
              HasSubstr("it is a symbolic link to '" + (temp / "nowhere") + "', which does not"));
  std::filesystem::create_directory(temp / "nowhere");
  EXPECT_TRUE(files.make_directories(temp / "link/inside").ok());
  EXPECT_EQ(files.make_directories(temp / "file").error().hint(),
            "name a folder, or a path that does not exist yet");
}

TEST(FileSystem, ErrorsNameThePath) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  const std::string missing = temp / "none/x";
  for (const Error& error : {files.read_file(missing).error(), files.info(missing).error(),
                             files.open_writer(missing).error(), files.open_staged(missing).error(),
                             files.list_directory(missing).error()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_THAT(error.message(), HasSubstr(missing));
  }
  EXPECT_EQ(files.read_file(temp.path()).error().kind(), ErrorKind::kInvalidArgument);
}

TEST(FileSystem, UnknownSchemeIsNamed) {
  FileSystem& files = local_file_system();
  const auto read = files.read_file("s3://bucket/a");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(read.error().message(), HasSubstr("'s3'"));
  EXPECT_FALSE(files.exists("gs://bucket").ok());
  EXPECT_FALSE(files.info("file://relative/path").ok());
  EXPECT_FALSE(files.info("").ok());
}

TEST(FileSystem, OneFileMayHaveSeveralNames) {
  TempDirectory temp;
  local_file_system().write_atomically(temp / "a", "1").value();
  local_file_system().write_atomically(temp / "b", "1").value();
  std::filesystem::create_symlink("a", temp / "link");
  std::filesystem::create_hard_link(temp / "a", temp / "hard");
  for (const char* name : {"a", "./a", "link", "hard"}) {
    EXPECT_TRUE(is_same_file(temp / "a", temp / name)) << name;
    EXPECT_TRUE(is_same_file("file://" + temp / name, temp / "a")) << name;
    EXPECT_FALSE(is_same_file(temp / name, temp / "b")) << name;
  }
  EXPECT_TRUE(is_same_file("s3://b/a", "s3://b/a"));
  EXPECT_FALSE(is_same_file("s3://b/a", "s3://b//a"));
  EXPECT_FALSE(is_same_file(temp / "none", temp / "./none"));
  EXPECT_FALSE(is_same_file(temp / "a", ""));
}

TEST(FileSystem, PathHelpers) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(base_name("a/b.c"), "b.c");
  EXPECT_EQ(base_name("b.c"), "b.c");
  EXPECT_EQ(directory_of("a/b"), "a");
  EXPECT_EQ(directory_of("/b"), "/");
  EXPECT_EQ(directory_of("b"), ".");
  EXPECT_FALSE(is_staging_name("model.ckpt-1.safetensors"));
}

TEST(FileSystem, MemoryReader) {
  auto reader = memory_reader(bytes_of("hello"), "greeting");
  std::string out(3, '\0');
  EXPECT_EQ(reader->size().value(), 5u);
  reader->read_exactly_at(2, std::as_writable_bytes(std::span(out))).value();
  EXPECT_EQ(out, "llo");
  EXPECT_THAT(reader->read_exactly_at(9, std::as_writable_bytes(std::span(out))).error().message(),
              HasSubstr("greeting"));
}

}  // namespace
}  // namespace muster::inline v0_1
