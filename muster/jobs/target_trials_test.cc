#include "muster/jobs/target_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::jobs {
namespace {

// A target that says of every job what it is told to say.
class PretendedTarget : public Target {
 public:
  std::string_view name() const override { return "pretended"; }
  std::vector<std::string> check(const JobSpec&) const override { return {}; }
  std::string describe(const JobSpec&, const JobRecord&) const override { return ""; }
  void submit(const JobSpec& job, JobRecord& record) override {
    EXPECT_TRUE(local_file_system().exists(record.folder).value());
    record.id = "id of " + job.name;
    // Found by whoever comes after a kill at any moment.
    EXPECT_TRUE(local_file_system().exists(record.folder + "/record.json").value());
  }
  JobStatus status(const JobRecord& record) override {
    EXPECT_EQ(record.id, "id of fit-3");
    if (away) throw Error(ErrorKind::kUnavailable, "the target cannot be asked", "");
    return now;
  }
  void logs(const JobRecord&, const LogOptions&, const LogSink& sink) override {
    for (const std::string& line : lines) sink(line);
  }
  void cancel(const JobRecord& record) override {
    cancelled = record.id;
    if (ends) now = {.state = JobState::kCancelled};
  }

  bool away = false;
  JobStatus now{.state = JobState::kRunning};
  std::string cancelled;
  bool ends = false;  // when it is cancelled
  std::vector<std::string> lines;
};

class TargetTrialsTest : public ::testing::Test {
 protected:
  TargetTrialsTest() {
    search_.name = "fit";
    search_.folder = directory_ / "record";
    trials_.start(3, {.name = "fit-3", .job_dir = "d/3"});
  }
  TempDirectory directory_;
  ManualClock clock_{{.sleep_advances = true}};
  PretendedTarget target_;
  JobRecord search_;
  TargetTrials trials_{target_, search_, clock_};
};

TEST_F(TargetTrialsTest, ATrialEndsAsItsJobDoes) {
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  target_.now = {.state = JobState::kSucceeded};
  EXPECT_EQ(trials_.exit_code(3), 0);
  target_.now = {.state = JobState::kFailed, .exit_code = 137};
  EXPECT_EQ(trials_.exit_code(3), 137);
  trials_.stop(3);
  EXPECT_EQ(target_.cancelled, "id of fit-3");
  target_.now = {.state = JobState::kCancelled};
  EXPECT_EQ(trials_.exit_code(3), 143);
}

TEST_F(TargetTrialsTest, ATargetMayBeAwayForAWhile) {
  target_.away = true;
  clock_.advance(TargetTrials::kForgotten - std::chrono::seconds(1));
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  target_.away = false;
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  target_.now.state = JobState::kUnknown;
  clock_.advance(TargetTrials::kForgotten - std::chrono::seconds(1));
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(trials_.exit_code(3), 1);
}

TEST_F(TargetTrialsTest, TheLastErrorOfALogIsWhatATrialSays) {
  EXPECT_EQ(trials_.last_words(3), "");
  target_.lines = {"step 1", "ValueError: x", "  ", "[muster] stopped because chief-0 failed"};
  EXPECT_EQ(trials_.last_words(3), "ValueError: x");
  target_.lines = {"[worker-0] error: first", "[worker-1] error: second", "[worker-0] hint: that"};
  EXPECT_EQ(trials_.last_words(3), "error: second");
  target_.lines = {"E 12:03:45 NotFound: there is no digits", "  hint: make it"};
  EXPECT_EQ(trials_.last_words(3), "NotFound: there is no digits");
  EXPECT_EQ(trials_.log_of(3), "muster jobs logs --task=trial-3 fit");
}

// What a process does that comes after one that was killed.
TEST_F(TargetTrialsTest, TrialsThatOutlivedTheirSearchAreFoundAndEnded) {
  EXPECT_EQ(trial_records(search_).at(3).id, "id of fit-3");
  EXPECT_EQ(running_trials(search_, target_), std::vector<int>{3});
  // It does not end: the wait is bounded, and names the trial.
  EXPECT_THAT(
      error_of([&] { end_trials(search_, target_, clock_, std::chrono::seconds(5)); }).message(),
      ::testing::HasSubstr("trial 3 of the search fit was asked to end and runs on"));
  target_.ends = true;
  end_trials(search_, target_, clock_, std::chrono::seconds(5));
  EXPECT_EQ(target_.cancelled, "id of fit-3");
  EXPECT_TRUE(running_trials(search_, target_).empty());
  // Of a trial that was seen to end nobody asks the target again.
  EXPECT_EQ(trials_.exit_code(3), 143);
  target_.now = {.state = JobState::kRunning};
  EXPECT_TRUE(running_trials(search_, target_).empty());
}

TEST_F(TargetTrialsTest, ATrialThatBeginsAnewFindsNothingOfTheOne) {
  const std::string left = search_.folder + "/trials/3/log";
  local_file_system().write_atomically(left, "old").value();
  trials_.start(3, {.name = "fit-3", .job_dir = "d/3"});
  EXPECT_FALSE(local_file_system().exists(left).value());
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
