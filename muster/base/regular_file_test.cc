#include "muster/base/regular_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "muster/base/file_system.h"
#include "muster/base/small_file.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1 {
namespace {

// What bears a file's name and is none; none of it makes anybody wait.
class RegularFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::mkfifo(pipe_.c_str(), 0600), 0);
    ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(socket_.size(), sizeof address.sun_path);
    std::strcpy(address.sun_path, socket_.c_str());
    listener_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  const TempDirectory temp_;
  const std::string pipe_ = temp_ / "pipe";
  const std::string socket_ = temp_ / "socket";
  const std::string directory_ = temp_ / "directory";
  FileDescriptor listener_;
};

TEST(FileError, SaysWhatToDoWhereNothingCanBeWritten) {
  EXPECT_NE(file_error(EROFS, "cannot make", "/a/b").hint().find("mount this file system for"),
            std::string::npos);
  EXPECT_NE(file_error(EACCES, "cannot make", "/a/b").hint().find("permissions and owner"),
            std::string::npos);
}

TEST_F(RegularFileTest, WhatIsNoneIsNamed) {
  FileSystem& files = local_file_system();
  const std::pair<std::string, std::string> others[] = {{pipe_, "a named pipe"},
                                                        {socket_, "a socket"},
                                                        {directory_, "a directory"},
                                                        {"/dev/zero", "a device"}};
  for (const auto& [path, kind] : others) {
    const std::string expected = "'" + path + "' is " + kind + ", not a file";
    const auto read = files.read_file(path);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(read.error().message(), expected);
    EXPECT_EQ(read.error().hint().substr(0, 11), "name a file");
    EXPECT_EQ(files.open_writer(path).error().message(), expected);
    EXPECT_EQ(files.open_writer(path).error().hint(),
              "name a file, or a path that does not exist yet");
    const Status special = check_is_no_special_file(path, path);
    EXPECT_EQ(special.ok() ? expected : special.error().message(), expected);
    EXPECT_EQ(special.ok(), path == directory_);
  }
  // No file takes the place of a device, also where who writes may do that.
  EXPECT_EQ(files.write_atomically("/dev/zero", "text").error().message(),
            "'/dev/zero' is a device, not a file");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/zero"));
  EXPECT_TRUE(check_is_no_special_file(temp_ / "none", "none").ok());
  // One that somebody reads from could be opened, and is none anyway.
  const FileDescriptor reader(::open(pipe_.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(reader.is_open());
  EXPECT_EQ(files.open_writer(pipe_).error().message(),
            "'" + pipe_ + "' is a named pipe, not a file");
  // A link to a file is one; a link to a pipe is none.
  files.write_atomically(temp_ / "file", "text").value();
  ASSERT_EQ(::symlink((temp_ / "file").c_str(), (temp_ / "link").c_str()), 0);
  EXPECT_EQ(files.read_file(temp_ / "link").value(), "text");
  ASSERT_EQ(::symlink(pipe_.c_str(), (temp_ / "to-pipe").c_str()), 0);
  EXPECT_EQ(files.read_file(temp_ / "to-pipe").error().kind(), ErrorKind::kInvalidArgument);
}

TEST_F(RegularFileTest, AFileTakesThePlaceOfNoLinkToWhatIsOpen) {
  FileSystem& files = local_file_system();
  const Error taken = files.write_atomically(directory_, "text").error();
  EXPECT_EQ(taken.message(), "'" + directory_ + "' is a directory, not a file");
  EXPECT_EQ(taken.hint(), "name a file, or a path that does not exist yet");
  // In a folder that is not there nothing is written, and the folder is named.
  const std::string none = temp_ / "none";
  for (const std::string& path : {none + "/file", "file://" + none + "/file"}) {
    EXPECT_EQ(files.write_atomically(path, "text").error().hint(),
              "there is no folder '" + directory_of(path) + "': make it, or name another");
    EXPECT_EQ(files.open_writer(path).error().hint(),
              "there is no folder '" + directory_of(path) + "': make it, or name another");
  }
  // A link such as /dev/stdout, also where that is a file.
  files.write_atomically(temp_ / "out", "mine").value();
  const FileDescriptor out(::open((temp_ / "out").c_str(), O_RDONLY));
  const std::string open_file = "/proc/self/fd/" + std::to_string(out.get());
  ASSERT_EQ(::symlink(open_file.c_str(), (temp_ / "stdout").c_str()), 0);
  EXPECT_EQ(files.write_atomically(temp_ / "stdout", "text").error().hint(),
            "name the file itself");
  EXPECT_EQ(files.read_file(temp_ / "out").value(), "mine");
  // One to a file, or to nothing, is replaced, and what it leads to stays as it was.
  ASSERT_EQ(::symlink("out", (temp_ / "link").c_str()), 0);
  ASSERT_EQ(::symlink("none", (temp_ / "dangling").c_str()), 0);
  for (const char* link : {"link", "dangling"}) {
    files.write_atomically(temp_ / link, "text").value();
    EXPECT_EQ(files.read_file(temp_ / link).value(), "text");
  }
  EXPECT_EQ(files.read_file(temp_ / "out").value(), "mine");
  EXPECT_FALSE(files.exists(temp_ / "none").value());
}

TEST_F(RegularFileTest, NothingIsUnderANameThatIsTooLong) {
  FileSystem& files = local_file_system();
  for (const size_t letters : {300, 10000}) {
    const std::string path = temp_ / std::string(letters, 'x');
    EXPECT_FALSE(files.exists(path).value());
    EXPECT_EQ(files.read_file(path).error().kind(), ErrorKind::kNotFound);
    const Status written = files.write_atomically(path, "x");
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(written.error().kind(), ErrorKind::kInvalidArgument) << written.error().what();
  }
  // A link to itself leads nowhere, as one to what is not there.
  const std::string link = temp_ / "loop";
  ASSERT_EQ(::symlink(link.c_str(), link.c_str()), 0);
  EXPECT_FALSE(files.exists(link).value());
  EXPECT_EQ(files.read_file(link).error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(files.read_file(temp_ / std::string("a\0b", 3)).error().kind(),
            ErrorKind::kInvalidArgument);
}

TEST_F(RegularFileTest, ASmallFileIsReadUpToItsLimit) {
  FileSystem& files = local_file_system();
  const std::string path = temp_ / "small";
  files.write_atomically(path, "12345").value();
  EXPECT_EQ(read_small_file(files, path, 5).value(), "12345");
  const auto large = read_small_file(files, path, 4);
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(read_small_file(files, pipe_, 5).error().kind(), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1
