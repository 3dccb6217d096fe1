// Decisions about jobs of this machine; for real ones see apps/jobs/jobs_command_test.cc.
#include "muster/jobs/local_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A process that got the number of a keeper which is gone, or has the same number on another
// machine.
class LocalTargetTest : public ::testing::Test {
 protected:
  // Writes the state of a job that `keeper` keeps, as far as the lock says.
  void keep(const internal::Keeper& keeper) {
    internal::write_state(directory_.path(),
                          {.status = {.state = JobState::kRunning}, .keeper = keeper});
  }
  // Whether a signal ended the process, for which it gets `time`.
  bool was_ended(std::chrono::milliseconds time = std::chrono::seconds(30)) {
    const auto status = process_.wait_for(time);
    return status && status->signal == SIGTERM;
  }

  TempDirectory directory_;
  const JobRecord record_{.name = "fit", .target = "local", .folder = directory_.path()};
  FileDescriptor lock_ = internal::lock_folder(directory_.path());
  launch::ChildProcess process_{{.argv = {"sleep", "60"}}};
  LocalTarget target_{"muster"};
};

TEST_F(LocalTargetTest, CancellingReachesTheKeeper) {
  keep(internal::keeper_of(process_.pid()));
  EXPECT_EQ(target_.status(record_).state, JobState::kRunning);
  target_.cancel(record_);
  EXPECT_EQ(target_.status(record_).state, JobState::kEnding);
  EXPECT_TRUE(was_ended());
}

// It holds the lock for a moment after it was killed, and so does this test for it.
TEST_F(LocalTargetTest, AKeeperThatWasKilledIsWaitedFor) {
  keep(internal::keeper_of(process_.pid()));
  kill(process_.pid(), SIGKILL);
  std::thread memory([this] {
    // So long the dying process has the lock; nothing that is asserted depends on how long.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lock_ = FileDescriptor();
  });
  EXPECT_FALSE(internal::is_kept(directory_.path()));
  memory.join();
  EXPECT_EQ(target_.status(record_).state, JobState::kFailed);
}

TEST_F(LocalTargetTest, ANumberThatWasUsedAgainIsNoKeeper) {
  internal::Keeper keeper = internal::keeper_of(process_.pid());
  keeper.began += 1;
  keep(keeper);
  target_.cancel(record_);
  EXPECT_FALSE(was_ended(std::chrono::milliseconds(200)));
}

TEST_F(LocalTargetTest, AKeeperOfAnotherMachineIsNotLookedForHere) {
  internal::Keeper keeper = internal::keeper_of(process_.pid());
  keeper.host = "elsewhere";
  keep(keeper);
  const Error error = error_of([&] { target_.cancel(record_); });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("fit"), HasSubstr("elsewhere")));
  EXPECT_FALSE(was_ended(std::chrono::milliseconds(200)));
}

// If machines share a folder but not its locks, only the job's own machine knows its state.
TEST(LocalTarget, AJobOfAnotherMachineHasNotFailed) {
  const TempDirectory directory;
  const JobRecord record{.name = "fit", .target = "local", .folder = directory.path()};
  internal::LocalState state{.status = {.state = JobState::kRunning},
                             .keeper = internal::keeper_of(getpid())};
  internal::write_state(record.folder, state);
  EXPECT_EQ(LocalTarget("muster").status(record).state, JobState::kFailed);
  state.keeper.host = "elsewhere";
  internal::write_state(record.folder, state);
  const JobStatus status = LocalTarget("muster").status(record);
  EXPECT_EQ(status.state, JobState::kUnknown);
  EXPECT_FALSE(status.forgotten);
  EXPECT_THAT(status.detail, HasSubstr("elsewhere"));
  EXPECT_THAT(message_of([&] { LocalTarget("muster").cancel(record); }), HasSubstr("elsewhere"));
}

// In words, and not as failures.
TEST(LocalTarget, TasksEndAsTheyWereAskedTo) {
  JobStatus status{.state = JobState::kCancelled,
                   .detail = "chief-0: exit code 143",
                   .tasks = {{.name = "chief-0", .state = JobState::kFailed, .exit_code = 143},
                             {.name = "worker-0", .state = JobState::kSucceeded, .exit_code = 0}}};
  JobStatus failed = status;
  failed.state = JobState::kFailed;
  JobStatus waited{.state = JobState::kCancelled,
                   .detail = "it was cancelled before it began",
                   .tasks = {{.name = "chief-0"}}};
  tell_of_cancelling(waited);
  EXPECT_EQ(waited.detail, "it was cancelled before it began");
  tell_of_cancelling(failed);
  EXPECT_EQ(failed.detail, "chief-0: exit code 143");
  EXPECT_EQ(failed.tasks[0].state, JobState::kFailed);

  tell_of_cancelling(status);
  EXPECT_EQ(status.detail, "its tasks ended as they were asked to");
  EXPECT_EQ(status.tasks[0].state, JobState::kCancelled);
  EXPECT_EQ(status.tasks[1].state, JobState::kSucceeded);
  status.tasks[1] = {.name = "worker-0", .state = JobState::kFailed, .exit_code = 137};
  tell_of_cancelling(status);
  EXPECT_THAT(status.detail, HasSubstr("worker-0 did not end when it was asked to"));
  // A task that had failed before gives the reason.
  status.detail = "worker-0: exit code 3";
  status.tasks[1] = {.name = "worker-0", .state = JobState::kFailed, .exit_code = 3};
  tell_of_cancelling(status);
  EXPECT_EQ(status.detail, "worker-0: exit code 3");
  EXPECT_EQ(status.tasks[1].state, JobState::kFailed);
}

TEST(LocalTarget, OfAJobThatNeverBeganNothingRuns) {
  const TempDirectory directory;
  const JobRecord record{.name = "fit", .target = "local", .folder = directory.path()};
  const JobStatus status = LocalTarget("muster").status(record);
  EXPECT_EQ(status.state, JobState::kUnknown);
  EXPECT_TRUE(status.forgotten);
  // A keeper that begins just now is not meant.
  const FileDescriptor lock = internal::lock_folder(record.folder);
  EXPECT_EQ(LocalTarget("muster").status(record).state, JobState::kQueued);
}

// The process that keeps a job reports a moment after it has begun to.
TEST(LocalTarget, CancelsAJobThatIsBeginning) {
  const TempDirectory directory;
  const JobRecord record{.name = "fit", .target = "local", .folder = directory.path()};
  const FileDescriptor lock = internal::lock_folder(record.folder);
  std::thread keeper([&] {
    // The time is the keeper's, and matters to nothing that is asserted.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    internal::write_state(record.folder, {.status = {.state = JobState::kRunning},
                                          .keeper = {.host = internal::keeper_of(1).host}});
  });
  LocalTarget("muster").cancel(record);
  keeper.join();
  EXPECT_TRUE(local_file_system().exists(directory / internal::kCancelFile).value());
}

// The same for a request for the log of a job that has no tasks yet; however soon it ends.
TEST(LocalTarget, TheLogOfAJobThatIsBeginningHasItsTasks) {
  for (int round = 0; round < 40; ++round) {
    const TempDirectory directory;
    const JobRecord record{.name = "fit", .target = "local", .folder = directory.path()};
    local_file_system().write_atomically(directory / "worker-0.log", "a line\n").value();
    FileDescriptor lock = internal::lock_folder(record.folder);
    std::jthread keeper([&] {
      // Rounds end at different moments of the look; nothing that is asserted depends on which.
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      internal::write_state(record.folder, {.status = {.state = JobState::kSucceeded,
                                                       .tasks = {{.name = "worker-0"}}}});
      lock = FileDescriptor();
    });
    std::string lines;
    LocalTarget("muster").logs(record, {.task = "worker-0", .follow = true},
                               [&](std::string_view line) { lines += line; });
    keeper.join();
    EXPECT_EQ(lines, "a line");
  }
}

TEST(LocalTarget, RefusesVariablesThatItSetsItself) {
  JobSpec job{.name = "fit", .program = {"train"}};
  for (const char* name : {"TF_CONFIG", "MUSTER_JOB_TOKEN", "MUSTER_JOB_ID"}) {
    job.pools = {{.role = "chief", .count = 1, .environment = {{name, "x"}}}};
    EXPECT_THAT(message_of([&] { LocalTarget("muster").check(job); }),
                HasSubstr(std::string("sets ") + name));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
