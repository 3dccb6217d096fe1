#include "muster/jobs/task_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Printed = std::vector<std::string>;

TEST(TaskErrorTest, IsTheLastErrorWithWhatIsIndentedBehindIt) {
  const Printed error{"E 12:00:00 NotFound: no data", "  hint: make some", "    more"};
  for (const Printed& before : {Printed(), Printed{"I 11:59:59 begin"}, Printed{"E old", " old"}}) {
    for (const Printed& behind : {Printed(), Printed{"I 12:00:01 end", "  x"}, Printed{"", ""}}) {
      Printed all = before;
      all.insert(all.end(), error.begin(), error.end());
      all.insert(all.end(), behind.begin(), behind.end());
      EXPECT_EQ(error_lines(all), error);
    }
  }
}

TEST(TaskErrorTest, IsTheLastTwoLinesWhereThereIsNone) {
  EXPECT_THAT(error_lines({}), IsEmpty());
  EXPECT_THAT(error_lines({"", " "}), IsEmpty());
  EXPECT_THAT(error_lines({"a"}), ElementsAre("a"));
  EXPECT_THAT(error_lines({"a", "b", "", "c", ""}), ElementsAre("b", "c"));
  EXPECT_THAT(error_lines({"Errors: 3", "xE "}), ElementsAre("Errors: 3", "xE "));
}

TEST(TaskErrorTest, IsShort) {
  Printed all{"E a"};
  for (int i = 0; i < 100; ++i) all.emplace_back("  frame");
  EXPECT_THAT(error_lines(all), SizeIs(20));
}

// A target that prints which task's log is read.
class PrintingTarget : public Target {
 public:
  std::string_view name() const override { return "printing"; }
  std::vector<std::string> check(const JobSpec&) const override { return {}; }
  std::string describe(const JobSpec&, const JobRecord&) const override { return ""; }
  void submit(const JobSpec&, JobRecord&) override {}
  JobStatus status(const JobRecord&) override { return {}; }
  void logs(const JobRecord&, const LogOptions& options, const LogSink& sink) override {
    EXPECT_FALSE(options.follow);
    if (is_away) throw Error(ErrorKind::kUnavailable, "away", "");
    while (hangs && !options.interrupted()) {
    }
    if (!hangs) sink("E of " + options.task);
  }
  void cancel(const JobRecord&) override {}

  bool is_away = false;
  bool hangs = false;
};

TEST(TaskErrorTest, IsThatOfTheTaskThatFailedFirst) {
  PrintingTarget target;
  const auto task_of = [&](const JobStatus& status) {
    const auto error = task_error_of(target, {}, status);
    return error ? error->task + " " + std::to_string(error->exit_code.value_or(-1)) + ": " +
                       error->lines.front()
                 : "";
  };
  JobStatus status{.state = JobState::kFailed,
                   .tasks = {{"worker-0", JobState::kFailed, 143},
                             {"worker-1", JobState::kSucceeded, 0},
                             {"worker-2", JobState::kFailed, 2},
                             {"worker-3", JobState::kFailed, 1}}};
  for (const int follows : {130, 137, 138, 143}) {
    status.tasks[0].exit_code = follows;
    EXPECT_EQ(task_of(status), "worker-2 2: E of worker-2") << follows;
  }
  status.detail = "worker-3: exit code 1";
  EXPECT_EQ(task_of(status), "worker-3 1: E of worker-3");
  target.is_away = true;
  EXPECT_EQ(task_of(status), "");
  target.is_away = false;
  target.hangs = true;
  EXPECT_FALSE(task_error_of(target, {}, status, std::chrono::milliseconds(1)));
  target.hangs = false;
  for (const JobState state : {JobState::kRunning, JobState::kSucceeded, JobState::kCancelled,
                               JobState::kUnknown, JobState::kEnding, JobState::kQueued}) {
    status.state = state;
    EXPECT_EQ(task_of(status), "") << to_string(state);
  }
  EXPECT_EQ(task_of({.state = JobState::kFailed}), "");
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
