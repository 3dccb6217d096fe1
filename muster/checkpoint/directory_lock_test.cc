#include "muster/checkpoint/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

TEST(DirectoryLockTest, OneAtATime) {
  TempDirectory directory;
  {
    const DirectoryLock lock(directory.path());
    const Error error = error_of([&] { DirectoryLock(directory.path(), milliseconds(0)); });
    EXPECT_EQ(exit_code(error.kind()), 2) << "no scheduler starts it again";
    EXPECT_THAT(error.message(), HasSubstr("is in use by process " + std::to_string(getpid())));
  }
  const DirectoryLock again(directory.path(), milliseconds(0));
}

TEST(DirectoryLockTest, AUriAndAPathAreOneDirectory) {
  TempDirectory directory;
  const DirectoryLock lock("file://" + directory.path());
  lock.check();
  for (const std::string& name :
       {directory.path(), "file://" + directory.path(), "file://localhost" + directory.path()}) {
    EXPECT_THAT(error_of([&] { DirectoryLock(name, milliseconds(0)); }).message(),
                HasSubstr("model_dir '" + name + "' is in use by process"));
  }
  EXPECT_THAT(error_of([] { DirectoryLock("s3://bucket/model", milliseconds(0)); }).message(),
              HasSubstr("no file system is registered for the scheme 's3'"));
}

TEST(DirectoryLockTest, EndsWithTheProcessThatHoldsIt) {
  TempDirectory directory;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    const DirectoryLock lock(directory.path());
    (void)!write(pipe_fds[1], "x", 1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(pipe_fds[0], &byte, 1), 1);
  const Error error = error_of([&] { DirectoryLock(directory.path(), milliseconds(0)); });
  EXPECT_THAT(error.message(), HasSubstr("process " + std::to_string(child)));
  int asked = 0;
  const Error stopped = error_of([&] {
    DirectoryLock(directory.path(), std::chrono::hours(1), [&] { return ++asked == 3; });
  });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(stopped.kind(), ErrorKind::kCancelled);
  EXPECT_EQ(stopped.hint(), "");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const DirectoryLock lock(directory.path(), std::chrono::minutes(1));
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

// The lock of a lost machine disappears by itself, in a minute or two.
TEST(DirectoryLockTest, WaitsLongerForAnotherMachine) {
  TempDirectory directory;
  const DirectoryLock lock(directory.path());
  {
    std::ofstream file(directory / ".lock");  // as on a disk that two machines share
    file << "process 7 on another-machine";
  }
  int asked = 0;
  const Error error = error_of(
      [&] { DirectoryLock(directory.path(), milliseconds(1), [&] { return ++asked == 5; }); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("process 7 on another-machine"));
}

TEST(DirectoryLockTest, NoticesThatItsDirectoryIsGone) {
  TempDirectory directory;
  const std::string path = directory / "model";
  std::filesystem::create_directory(path);
  const DirectoryLock lock(path);
  lock.check();
  std::filesystem::rename(path, directory / "moved");
  EXPECT_EQ(error_of([&] { lock.check(); }).kind(), ErrorKind::kUnavailable);
  std::filesystem::create_directory(path);
  const DirectoryLock other(path, milliseconds(0));
  EXPECT_THAT(error_of([&] { lock.check(); }).message(), HasSubstr("removed or replaced"));
  other.check();
}

TEST(DirectoryLockTest, WritesNobodyElsesFile) {
  TempDirectory directory;
  std::filesystem::create_symlink("victim", directory / ".lock");
  const Error link = error_of([&] { DirectoryLock(directory.path(), milliseconds(0)); });
  EXPECT_EQ(link.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(link.message(), HasSubstr("a symbolic link"));
  EXPECT_FALSE(std::filesystem::exists(directory / "victim"));
  std::filesystem::remove(directory / ".lock");
  std::filesystem::create_directory(directory / ".lock");
  EXPECT_THAT(error_of([&] { DirectoryLock(directory.path(), milliseconds(0)); }).message(),
              HasSubstr("a directory"));
}

}  // namespace
}  // namespace muster::inline v0_1
