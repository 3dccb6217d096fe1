#include "muster/jobs/target_trials.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
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
  }
  JobStatus status(const JobRecord& record) override {
    EXPECT_EQ(record.id, "id of fit-3");
    if (away) throw Error(ErrorKind::kUnavailable, "the target cannot be asked", "");
    return now;
  }
  void logs(const JobRecord&, const LogOptions&, const LogSink&) override {}
  void cancel(const JobRecord& record) override { cancelled = record.id; }

  bool away = false;
  JobStatus now{.state = JobState::kRunning};
  std::string cancelled;
};

class TargetTrialsTest : public ::testing::Test {
 protected:
  TargetTrialsTest() {
    search_.folder = directory_ / "record";
    trials_.start(3, {.name = "fit-3", .job_dir = "d/3"});
  }
  TempDirectory directory_;
  ManualClock clock_;
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

TEST_F(TargetTrialsTest, ATrialThatBeginsAnewFindsNothingOfTheOne) {
  const std::string left = search_.folder + "/trials/3/log";
  local_file_system().write_atomically(left, "old").value();
  trials_.start(3, {.name = "fit-3", .job_dir = "d/3"});
  EXPECT_FALSE(local_file_system().exists(left).value());
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
