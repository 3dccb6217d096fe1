#include "muster/jobs/same_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::HasSubstr;

JobRecord record_of(std::vector<std::string> words, const std::string& job_dir = "") {
  return {.target = "local", .job_dir = job_dir, .command = "x", .commands = {std::move(words)}};
}

TEST(SameJobTest, ADirectoryIsTheSameHoweverItIsWritten) {
  const TempDirectory directory;
  std::filesystem::create_directories(directory / "runs/m");
  std::filesystem::create_directory_symlink("runs", directory / "link");
  const std::string whole = directory / "runs/m";
  const JobRecord there = record_of({"train"}, whole);
  for (const char* same : {"runs/m/", "runs/./m", "runs/x/../m", "link/m"}) {
    EXPECT_TRUE(same_dir(there, directory / same)) << same;
    EXPECT_TRUE(same_job(there, record_of({"train"}, directory / same))) << same;
  }
  for (const std::string& other :
       {directory / "runs", directory / "runs/n", std::string(), std::string("s3://runs/m")})
    EXPECT_FALSE(same_dir(there, other)) << other;
  EXPECT_TRUE(same_dir(record_of({}, "s3://b/x"), "s3://b/x/"));
  EXPECT_FALSE(same_dir(record_of({}), ""));
  EXPECT_TRUE(same_job(record_of({"train"}), record_of({"train"})));
}

TEST(SameJobTest, DifferencesAreNamed) {
  const JobRecord there = record_of({"train", "--epochs=2", "--a b"});
  EXPECT_EQ(difference(there, record_of({"train", "--epochs=3", "--a b"})),
            "it has --epochs=2 where this one has --epochs=3");
  EXPECT_EQ(difference(there, record_of({"train", "--epochs=2"})),
            "it has '--a b', and this one has not");
  EXPECT_EQ(difference(record_of({"train"}), record_of({"train", "-x"})),
            "this one has -x, and it has not");
  EXPECT_EQ(difference(there, record_of({"train", "--a b", "--epochs=2"})),
            "it has the same words in another order");
  EXPECT_THAT(difference(there, record_of({"train", "--epochs=2", "--a b"}, "/x")),
              HasSubstr("its job directory is none, and that of this one /x"));
  JobRecord other = there;
  EXPECT_EQ(difference(there, other), "");
  other.target = "slurm";
  EXPECT_EQ(difference(there, other), "it is of local, and this one of slurm");
}

TEST(SameJobTest, RecordsOfEarlierVersionsHaveTheirCommand) {
  JobRecord before = record_of({});
  before.commands.clear();
  EXPECT_TRUE(same_job(before, record_of({"train"})));
  before.command = "train --epochs=2";
  EXPECT_FALSE(same_job(before, record_of({"train"})));
  EXPECT_EQ(difference(before, record_of({"train"})), "it runs train --epochs=2");
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
