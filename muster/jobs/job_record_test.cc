#include "muster/jobs/job_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/log_files.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobRecordTest, NamesAreThoseOfEveryTarget) {
  for (const char* name : {"a", "resnet50-1", "a-b-c9"}) EXPECT_NO_THROW(check_job_name(name));
  for (const char* name : {"", "A", "9a", "a_b", "a-", "-a", "a.b"})
    EXPECT_THROW(check_job_name(name), Error) << name;
  EXPECT_THROW(check_job_name(std::string(64, 'a')), Error);
  EXPECT_EQ(job_name_from("ResNet_50.exe"), "resnet-50-exe");
  EXPECT_EQ(job_name_from("./50%"), "job");
  // Whatever it is made of can be a name.
  for (const char* text : {"9 lives", "Ü", "a--b", "_", "x!"})
    EXPECT_NO_THROW(check_job_name(job_name_from(text))) << text;
  EXPECT_NO_THROW(check_job_name(job_name_from(std::string(62, 'a') + "-b")));
}

TEST(JobRecordTest, RecordsAreFoundAgainAndNamesTakenOnce) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  EXPECT_THAT(store.list(), IsEmpty());
  JobRecord first = store.add("", "train");
  EXPECT_EQ(first.name, "train-1");
  first.target = "local";
  first.submitted = 2;
  first.details["x"] = "y\n";
  store.save(first);
  JobRecord second = store.add("", "train");
  EXPECT_EQ(second.name, "train-2");
  // The name is free until it is saved.
  EXPECT_THAT(store.list(), ElementsAre(first));
  second.submitted = 1;
  store.save(second);
  EXPECT_THAT(store.list(), ElementsAre(second, first));
  EXPECT_EQ(store.find("train-1"), first);
  EXPECT_THAT(error_of([&] { store.find("trian-1"); }).hint(), HasSubstr("did you mean train-1?"));
  EXPECT_THAT(message_of([&] { store.add("train-1", ""); }), HasSubstr("already"));
  // A folder without a record cannot be found, nor removed by its name.
  std::filesystem::create_directory(store.folder() + "/bare");
  EXPECT_THAT(error_of([&] { store.check_free("bare"); }).hint(),
              HasSubstr("rm -r " + store.folder() + "/bare"));
  struct stat info {};
  ASSERT_EQ(stat(first.folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  store.remove(first);
  EXPECT_THAT(store.list(), ElementsAre(second));
}

// A number that a job had is not another's, as long as there is a higher one.
TEST(JobRecordTest, NumbersGoUp) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  for (int number = 1; number <= 11; ++number)
    EXPECT_EQ(store.add("", "fit").name, "fit-" + std::to_string(number));
  store.remove(store.preview("fit-1", ""));
  store.remove(store.preview("fit-10", ""));
  EXPECT_EQ(store.preview("", "fit").name, "fit-12");
  // These are not numbers of its own.
  for (const char* name : {"fit-a", "fit-2-40", "fits-50", "fit-20261126125400"})
    store.add(name, "");
  EXPECT_EQ(store.add("", "fit").name, "fit-12");
  EXPECT_EQ(store.add("", "fits").name, "fits-51");
}

TEST(JobRecordTest, AGuessIsMadeWhereItHelps) {
  const std::vector<std::string> names{"mnist-1", "mnist-2", "a", "resnet50-1"};
  EXPECT_EQ(meant_by("mnits-1", names), "mnist-1");
  EXPECT_EQ(meant_by("resnet-1", names), std::nullopt);
  for (const char* name : {"mnist-9", "mnist-12", "b", "ab", "nothing"})
    EXPECT_FALSE(meant_by(name, names)) << name;
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  const auto hint = [&] { return error_of([&] { store.find("mnist-9"); }).hint(); };
  EXPECT_THAT(hint(), HasSubstr("there are no jobs"));
  for (const char* name : {"mnist-1", "mnist-2"}) store.save(store.add(name, ""));
  EXPECT_THAT(hint(), ::testing::AllOf(HasSubstr("'mnist-1'"), HasSubstr("'mnist-2'"),
                                       ::testing::Not(HasSubstr("mean"))));
}

TEST(JobRecordTest, ANameIsNoWayOutOfTheStore) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  JobRecord record = store.add("inner", "");
  record.folder = directory.path();
  store.save(record);
  for (const char* name : {"..", ".", "../..", ""})
    EXPECT_EQ(error_of([&] { store.find(name); }).kind(), ErrorKind::kNotFound) << name;
}

TEST(JobRecordTest, TheStoreIsWhereTheAccountKeepsState) {
  EXPECT_EQ(JobStore::of({{"XDG_STATE_HOME", "/s"}, {"HOME", "/h"}}).folder(), "/s/muster/jobs");
  EXPECT_EQ(JobStore::of({{"XDG_STATE_HOME", "s"}, {"HOME", "/h"}}).folder(),
            "/h/.local/state/muster/jobs");
  EXPECT_THAT(message_of([] { JobStore::of({}); }), HasSubstr("XDG_STATE_HOME"));
}

std::vector<std::string> lines_of(const std::vector<LogFile>& files, const LogOptions& options) {
  std::vector<std::string> lines;
  read_logs(
      files, options, [] { return true; },
      [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

TEST(LogFilesTest, TheLastLinesOfEachFile) {
  const TempDirectory directory;
  const std::string path = directory / "log";
  std::string text;
  std::vector<std::string> all;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back("line " + std::to_string(i));
    text += all.back() + "\n";
  }
  std::ofstream(path) << text;
  EXPECT_EQ(lines_of({{path}}, {}), all);
  for (const int tail : {0, 1, 2, 19'999, 20'000, 30'000}) {
    const auto begin = all.end() - std::min<int>(tail, 20'000);
    EXPECT_EQ(lines_of({{path}}, {.tail = tail}), std::vector<std::string>(begin, all.end()))
        << tail;
  }
  std::ofstream(path, std::ios::app) << "open";
  EXPECT_THAT(lines_of({{path, "[a] "}, {directory / "none"}}, {.tail = 2}),
              ElementsAre("[a] line 19999", "[a] open"));
}

TEST(LogFilesTest, LinesWrittenMeanwhileAreFollowedToTheEnd) {
  const TempDirectory directory;
  const std::string path = directory / "log";
  std::vector<std::string> lines;
  int looks = 0;
  read_logs(
      {{path}}, {.follow = true},
      [&] {
        std::ofstream(path, std::ios::app) << "half " << looks << (looks % 2 == 0 ? "" : "\n");
        return ++looks == 4;
      },
      [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines, ElementsAre("half 0half 1", "half 2half 3"));
}

TEST(LogFilesTest, AFileThatIsEmptiedIsReadFromItsBeginning) {
  const TempDirectory directory;
  const std::string path = directory / "log";
  std::ofstream(path) << "before 0\nbefore 1\ncut";
  std::vector<std::string> lines;
  int looks = 0;
  read_logs(
      {{path}}, {.follow = true},
      [&] {
        std::ofstream(path, looks == 0 ? std::ios::trunc : std::ios::app)
            << "after " << looks << "\n";
        return ++looks == 2;
      },
      [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines, ElementsAre("before 0", "before 1", "cut", "after 0", "after 1"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
