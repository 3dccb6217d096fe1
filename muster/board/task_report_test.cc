#include "muster/board/task_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/launch/run_record.h"
#include "muster/summary/live_status.h"

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;
using plan::Activity;

TEST(TaskReport, NamesTheSlowTaskOfARunThatHasEndedAndHowTasksWereStarted) {
  const TempDirectory folder;
  FileSystem& files = file_systems();
  EXPECT_TRUE(task_report_json(files, folder.path()).is_null());
  for (int64_t process = 0; process < 2; ++process) {
    summary::LiveStatus status{.task = "worker " + std::to_string(process),
                               .process = process,
                               .processes = 2,
                               .started = 100,
                               .written = 200 + static_cast<double>(process),
                               .end = "ended"};
    plan::ActivityNow& replica =
        status.replicas.emplace_back(plan::ActivityNow{.task = status.task, .step = 5});
    for (int64_t step = 1; step <= 5; ++step) {
      replica.last.push_back({.step = step});
      replica.last.back().seconds[static_cast<size_t>(Activity::kInput)] =
          process == 1 ? .04F : .01F;
      replica.last.back().seconds[static_cast<size_t>(Activity::kCommunication)] =
          process == 1 ? .001F : .031F;
    }
    ASSERT_TRUE(write_live_status(files, folder.path(), status).ok());
  }
  json report = task_report_json(files, folder.path());
  EXPECT_EQ(report["tasks"][0]["state"], "ended");
  EXPECT_EQ(report["straggler"]["name"], "worker 1");
  EXPECT_TRUE(report["launch"].is_null());

  launch::RunOptions options{.command = {"/bin/true"}};
  launch::RunRecord record({"muster", "run", "--", "/bin/true"});
  record.watch(options);
  const int code = launch::run(options);
  const std::string path = folder / launch::kLaunchFile;
  files.write_atomically(path, record.to_json(code)).value();
  report = task_report_json(files, folder.path());
  EXPECT_EQ(report["launch"]["tasks"][0]["starts"].size(), 1U);
  for (const char* damaged : {"", "[]", "{\"tasks\": [1]}", "{\"tasks\": [{\"name\": 1}]}"}) {
    files.write_atomically(path, damaged).value();
    EXPECT_TRUE(task_report_json(files, folder.path())["launch"].is_null()) << damaged;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::board
