#include "muster/jobs/final_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::jobs {
namespace {

class SeenEndTest : public ::testing::Test {
 protected:
  // Asks, and counts that.
  JobStatus ask() {
    return final_or_current_status(record_, [this] {
      ++asked_;
      if (is_away_) throw Error(ErrorKind::kUnavailable, "away", "");
      return status_;
    });
  }

  const TempDirectory directory_;
  JobRecord record_{.name = "a", .folder = directory_.path(), .submission = "s1"};
  JobStatus status_{.state = JobState::kFailed,
                    .exit_code = 2,
                    .detail = "why",
                    .restarts = 3,
                    .tasks = {{"worker-0", JobState::kFailed, 2, "node1"},
                              {"worker-1", JobState::kCancelled, std::nullopt, ""}}};
  bool is_away_ = false;
  int asked_ = 0;
};

TEST_F(SeenEndTest, IsTheAnswerFromThenOn) {
  EXPECT_FALSE(final_status(record_));
  for (const JobState state : {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled}) {
    record_.submission = to_string(state);
    status_.state = state;
    is_away_ = false;
    asked_ = 0;
    ask();
    is_away_ = true;
    const JobStatus end = ask();
    EXPECT_EQ(asked_, 1);
    EXPECT_EQ(end.state, state);
    EXPECT_EQ(end.exit_code, 2);
    EXPECT_EQ(end.detail, "why");
    EXPECT_EQ(end.restarts, 3);
    EXPECT_FALSE(end.forgotten);
    ASSERT_EQ(end.tasks.size(), 2U);
    EXPECT_EQ(end.tasks[0].exit_code, 2);
    EXPECT_EQ(end.tasks[0].place, "node1");
    EXPECT_EQ(end.tasks[1].state, JobState::kCancelled);
    EXPECT_FALSE(end.tasks[1].exit_code);
  }
}

TEST_F(SeenEndTest, IsNoneWhileSomethingMayRun) {
  const auto expect_asked_again = [this](const JobStatus& status) {
    status_ = status;
    ask();
    EXPECT_FALSE(final_status(record_)) << to_string(status.state);
  };
  for (const JobState state :
       {JobState::kQueued, JobState::kRunning, JobState::kEnding, JobState::kUnknown})
    expect_asked_again({.state = state});
  // As on Kubernetes, where the tasks of one role do not know of another's failure.
  expect_asked_again({.state = JobState::kFailed, .tasks = {{"ps-0", JobState::kRunning}}});
  expect_asked_again({.state = JobState::kFailed, .may_return = true});
  is_away_ = true;
  EXPECT_THROW(ask(), Error);
}

TEST_F(SeenEndTest, IsThatOfItsSubmissionAlone) {
  ask();
  record_.submission = "s2";
  status_ = {.state = JobState::kRunning};
  EXPECT_EQ(ask().state, JobState::kRunning);
  // A file that cannot be read counts as none.
  record_.submission = "s1";
  local_file_system()
      .write_atomically(directory_ / kEndFile, std::string_view(R"({"state": "failed)"))
      .value();
  EXPECT_FALSE(final_status(record_));
}

// A target that keeps the names of its jobs may have forgotten one since.
TEST_F(SeenEndTest, StaysWhenTheTargetForgetsTheJob) {
  const JobStatus end = ask();
  const auto again = [&](const JobStatus& now) {
    return recheck_status(record_, end, [&] { return now; });
  };
  EXPECT_FALSE(again({.state = JobState::kUnknown, .detail = "away"}).forgotten);
  EXPECT_EQ(final_status(record_)->exit_code, 2);
  const JobStatus forgotten = again({.state = JobState::kUnknown, .forgotten = true});
  EXPECT_TRUE(forgotten.forgotten);
  EXPECT_EQ(forgotten.state, JobState::kFailed);
  EXPECT_TRUE(final_status(record_)->forgotten);
}

// The log of a task may be gone, and its target away, when the job is looked at again.
TEST_F(SeenEndTest, KeepsTheErrorOfTheTaskThatFailed) {
  std::optional<TaskError> said;
  const auto error = [&] {
    return final_or_current_error(record_, [&] {
      ++asked_;
      return said;
    });
  };
  EXPECT_FALSE(error());
  ask();
  EXPECT_FALSE(error());
  said = {.task = "worker-0", .exit_code = 2, .lines = {"E no data", "  hint"}, .said = false};
  asked_ = 0;
  for (int i = 0; i < 3; ++i) {
    const auto got = error();
    ASSERT_TRUE(got);
    EXPECT_EQ(got->task, "worker-0");
    EXPECT_EQ(got->exit_code, 2);
    EXPECT_EQ(got->lines, said->lines);
    EXPECT_FALSE(got->said);
  }
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(final_status(record_)->detail, "why");
  // The end of another submission does not count.
  record_.submission = "s2";
  error();
  EXPECT_EQ(asked_, 2);
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
