#include "muster/jobs/job_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(JobDirTest, AStoreHasTwoSlashes) {
  for (const char* path :
       {"", "s3://b/x", "gs://b", "runs/1", "./s3:b/x", "/s3:b", "a:b/c", "file:///a"})
    EXPECT_NO_THROW(check_slashes("the job directory", path)) << path;
  for (const auto& [path, meant] : {std::pair{"s3:b/x", "s3://b/x,"},
                                    {"s3:/b/x", "s3://b/x,"},
                                    {"gs:b", "gs://b,"},
                                    {"file:/a", "file:///a,"}}) {
    const Error error = error_of([&] { check_slashes("the job directory", path); });
    EXPECT_THAT(error.message(), HasSubstr(std::string("the job directory is '") + path)) << path;
    EXPECT_THAT(error.hint(), AllOf(HasSubstr(meant), HasSubstr(std::string("./") + path)));
  }
}

TEST(JobDirTest, AFileIsInTheWay) {
  const TempDirectory directory;
  const std::string file = directory / "file";
  std::ofstream(file) << "text";
  for (const bool writes_here : {false, true}) {
    for (const std::string& path : {file, file + "/run", file + "/a/../b/", "file://" + file}) {
      EXPECT_THAT(message_of([&] { check_place(path, writes_here); }),
                  AllOf(HasSubstr("the job directory " + path), HasSubstr(file + " is a file")));
    }
    for (const std::string& path :
         {std::string(), directory.path(), directory / "a/b", std::string("s3://b/x")})
      EXPECT_NO_THROW(check_place(path, writes_here)) << path;
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "a"));
}

// Root may write everywhere, so that another account looks, in a process of its own.
TEST(JobDirDeathTest, AFolderThatCannotBeWritten) {
  const TempDirectory directory;
  const std::string closed = directory / "closed", open = directory / "open";
  for (const std::string& folder : {closed, open}) std::filesystem::create_directory(folder);
  using std::filesystem::perms;
  constexpr perms kEnter = perms::owner_exec | perms::group_exec | perms::others_exec;
  std::filesystem::permissions(directory.path(), perms::owner_all | kEnter);
  std::filesystem::permissions(closed, perms::owner_read | kEnter);
  std::filesystem::permissions(open, perms::all);
  const auto look = [](const std::string& path, bool writes_here) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(9);
    try {
      check_place(path, writes_here);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.message().c_str());
      _exit(2);
    }
    _exit(0);
  };
  using ::testing::ExitedWithCode;
  EXPECT_EXIT(look(closed + "/run", true), ExitedWithCode(2), "closed: Permission denied");
  EXPECT_EXIT(look(closed, true), ExitedWithCode(2), "cannot be written");
  EXPECT_EXIT(look(open + "/a/b", true), ExitedWithCode(0), "");
  // Where others write, that is not known here.
  EXPECT_EXIT(look(closed + "/run", false), ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
