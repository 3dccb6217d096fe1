#include "muster/jobs/task_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Printed = std::vector<std::string>;

TEST(TaskErrorTest, IsTheLastErrorWithItsIndentedLines) {
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
  Printed all{"E 12:00:00 a"};
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
    if (hangs) return;
    const auto words = said.find(options.task);
    sink(words == said.end() ? "E of " + options.task : words->second);
  }
  void cancel(const JobRecord&) override {}

  bool is_away = false;
  bool hangs = false;
  std::map<std::string, std::string> said;  // by tasks
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

constexpr const char* kOwn = "E 12:00:00 InvalidArgument: cannot write to /proc/x";
constexpr const char* kRepeats =
    "E 12:00:00 InvalidArgument: worker 2 failed at step 0 (building): InvalidArgument: cannot";
constexpr const char* kLost = "E 12:00:00 PeerLost: worker 2 was lost; see the output of worker 2";

// Whichever ended first, and whomever the detail names.
TEST(TaskErrorTest, AnErrorThatOnlyRepeatsAnothersGivesWay) {
  PrintingTarget target;
  for (const auto& [follows, code] : {std::pair(kRepeats, 2), std::pair(kLost, 138)}) {
    JobStatus status{.state = JobState::kFailed};
    for (const char* name : {"worker-0", "worker-1", "worker-2"}) {
      status.tasks.push_back({name, JobState::kFailed, code});
      target.said[name] = follows;
    }
    for (const char* named : {"worker-0", "worker-1", "worker-2", ""}) {
      target.said["worker-2"] = kOwn;
      status.tasks[2].exit_code = 2;
      status.detail = named == std::string() ? "" : failure_of(named, named[7] == '2' ? 2 : code);
      const auto error = task_error_of(target, {}, status);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->task, "worker-2") << named;
      EXPECT_THAT(error->lines, ElementsAre(kOwn));
      JobStatus told = status;
      tell_who_failed(told, *error);
      EXPECT_EQ(told.detail, named == std::string() ? "" : "worker-2: exit code 2");
      // A killed task could print nothing.
      target.said["worker-2"] = "I 12:00:00 step 3";
      status.tasks[2].exit_code = 137;
      status.detail = "worker-0: exit code " + std::to_string(code);
      const auto killed = task_error_of(target, {}, status);
      ASSERT_TRUE(killed);
      EXPECT_EQ(killed->task, "worker-2");
      EXPECT_FALSE(killed->said);
      EXPECT_THAT(killed->lines, ElementsAre(HasSubstr("killed by SIGKILL (kill -9")));
      tell_who_failed(status, *killed);
      EXPECT_EQ(status.detail, "worker-2: " + killed->lines.front());
    }
    // If no task has words of its own, the first stays.
    target.said["worker-2"] = follows;
    status.tasks[2].exit_code = code;
    status.detail = failure_of("worker-1", code);
    EXPECT_EQ(task_error_of(target, {}, status)->task, "worker-1");
  }
}

TEST(TaskErrorTest, ADetailWithOtherWordsStays) {
  for (const char* detail : {"it ran for longer than 1 s", "chief: OOMKilled", ""}) {
    JobStatus status{.state = JobState::kFailed,
                     .detail = detail,
                     .tasks = {{"worker-0", JobState::kFailed, 2}}};
    tell_who_failed(status, {.task = "worker-1", .exit_code = 3});
    EXPECT_EQ(status.detail, detail);
  }
}

TEST(TaskErrorTest, TheCodesOfSignalsAreReported) {
  EXPECT_EQ(failure_of("a", 2), "a: exit code 2");
  for (const int own : {128, 130, 138, 143, 193, 255})
    EXPECT_EQ(failure_of("a", own), "a: exit code " + std::to_string(own));
  EXPECT_THAT(failure_of("a", 137), HasSubstr("a: killed by SIGKILL ("));
  EXPECT_THAT(failure_of("a", 139), HasSubstr("a: killed by SIGSEGV ("));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
