#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/muster/inspect.h"
#include "apps/muster/run_muster.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/failure_report.h"

namespace muster::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InspectFailuresTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const formats::FailureReport& report) {
    files_.make_directories(folder_ / "failures").value();
    files_
        .write_atomically(join_path(folder_ / "failures", name),
                          std::string_view(formats::encode_failure_report(report)))
        .value();
  }
  static formats::FailureReport report_of(int rank, int64_t calls, const std::string& failure) {
    formats::FailureReport report{.task = "worker " + std::to_string(rank),
                                  .step = 16,
                                  .error = "worker 1 was lost",
                                  .wall_seconds = 1000};
    for (int64_t number = 15; number <= calls; ++number) {
      report.calls.push_back({.transport = "TCP",
                              .rank = rank,
                              .size = 3,
                              .number = number,
                              .call = "all_reduce #" + std::to_string(number) + " of 8 float32",
                              .before = 1.5,
                              .seconds = 0.002});
    }
    report.calls.back().failure = failure;
    return report;
  }

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(InspectFailuresTest, TheMissingRankAndTheSlowRankAreNamed) {
  write("worker-0.json", report_of(0, 18, "rank 1 is gone"));
  write("worker-2.json", report_of(2, 17, "rank 1 is gone"));
  const std::string text = inspect_failures(files_, folder_.path(), false).text;
  EXPECT_THAT(text, HasSubstr("the last failure was at 19"));  // the 1,000th second of 1970
  EXPECT_THAT(text, HasSubstr("worker 0 after step 16: worker 1 was lost\n"));
  EXPECT_THAT(text, HasSubstr("TCP of 3 ranks\n"));
  EXPECT_THAT(text, HasSubstr("all_reduce #17 of 8 float32 (0.002 s)"));
  EXPECT_THAT(text, HasSubstr("all_reduce #18 of 8 float32, called 1.5 s before the report"));
  EXPECT_THAT(text, HasSubstr("rank 1 left no report\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "worker 2 (rank 2) made 17 calls, and another rank 18: the others waited for it\n"));
  const ShellOutput ran = run_muster("inspect failures --json " + folder_.path());
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(nlohmann::json::parse(ran.text).size(), 2u);
}

TEST_F(InspectFailuresTest, AReportOfAnEarlierFailureIsMarked) {
  write("worker-0.json", report_of(0, 18, "rank 1 is gone"));
  formats::FailureReport old = report_of(1, 18, "x");
  old.wall_seconds = 10;
  write("worker-1.json", old);
  const std::string text = inspect_failures(files_, folder_.path(), false).text;
  EXPECT_THAT(text, HasSubstr("worker 1 after step 16, in an earlier failure: "));
  EXPECT_THAT(text, HasSubstr("rank 1 left no report"));
}

TEST_F(InspectFailuresTest, WithoutAReport) {
  EXPECT_EQ(error_of([&] { inspect_failures(files_, folder_.path(), false); }).kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::app
