#include "muster/train/task_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/formats/failure_report.h"
#include "muster/plan/activity.h"

namespace muster::inline v0_1 {
namespace {

const Error kLost(ErrorKind::kPeerLost, "lost worker 0");

class TaskWatchTest : public ::testing::Test {
 protected:
  // Ends a run of so many processes after step 7, by these errors.
  void end(int processes, const std::vector<const Error*>& errors) {
    TaskWatch watch({.place = {.process = 1, .processes = processes, .task = "worker 1"}});
    plan::ListedActivity activity("worker 1", watch.run());
    activity.end_step(7);
    watch.show_in(model_dir_.path());
    watch.begin(/*trains=*/true);
    for (const Error* error : errors) watch.end(error);
  }
  Result<std::string> report() const {
    return file_systems().read_file(model_dir_ / "failures/worker-1.json");
  }

  const TempDirectory model_dir_;
};

TEST_F(TaskWatchTest, ATaskThatFailsLeavesAReport) {
  const Error later(ErrorKind::kInternal, "an exception left the scope of its strategy");
  end(2, {&kLost, &later});
  const std::string text = report().value();
  const auto read = formats::parse_failure_report(text, "report").value();
  EXPECT_EQ(read.task, "worker 1");
  EXPECT_EQ(read.step, 7);
  EXPECT_EQ(read.error, "lost worker 0");
}

TEST_F(TaskWatchTest, ATaskThatEndsWellOrIsStoppedLeavesNone) {
  const Error stopped(ErrorKind::kCancelled, "stopped by SIGTERM");
  end(2, {nullptr, &kLost});
  end(2, {&stopped, &kLost});
  end(1, {&kLost});
  EXPECT_FALSE(report().ok());
}

}  // namespace
}  // namespace muster::inline v0_1
