#include "muster/jobs/target_trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A target that reports a given status for every job.
class PretendedTarget : public Target {
 public:
  std::string_view name() const override { return "pretended"; }
  std::vector<std::string> check(const JobSpec&) const override { return {}; }
  std::string describe(const JobSpec&, const JobRecord&) const override { return ""; }
  void locate(const JobSpec&, JobRecord& record) const override { record.details["place"] = "lab"; }
  void submit(const JobSpec& job, JobRecord& record) override {
    // It is found after a kill at any moment.
    const std::string saved = local_file_system().read_file(record.folder + "/record.json").value();
    EXPECT_THAT(saved, AllOf(HasSubstr(record.submission), HasSubstr("\"place\": \"lab\"")));
    submissions.insert(record.submission);
    if (refuses) throw invalid_argument("no machine is free", "");
    if (silent) throw UnclearSubmission(Error(ErrorKind::kTimeout, "no answer", ""), record);
    record.id = "id of " + job.name;
  }
  bool recognise(JobRecord& record) override {
    EXPECT_TRUE(submissions.contains(record.submission));
    if (away) throw Error(ErrorKind::kUnavailable, "the target cannot be asked", "");
    if (!has_come) return false;
    record.id = "id of " + record.name;
    return true;
  }
  JobStatus status(const JobRecord& record) override {
    EXPECT_THAT(record.id, StartsWith("id of fit-3"));
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
  bool refuses = false, silent = false;
  bool has_come = false;  // the submission without an answer
  std::set<std::string> submissions;
  std::vector<std::string> lines;
};

class TargetTrialsTest : public ::testing::Test {
 protected:
  TargetTrialsTest() { trials_.start(3, kJob); }
  // Leaves the state of a search that was killed while it submitted the trial.
  void submit_in_silence() {
    target_.silent = true;
    trials_.start(3, kJob);
  }
  // The message of the exception; "" if there is none.
  template <typename Call>
  static std::string thrown_by(const Call& call) {
    try {
      call();
      return "";
    } catch (const Error& error) {
      return error.message();
    }
  }
  std::string end_all(const std::function<bool()>& interrupted = [] { return false; }) {
    return thrown_by(
        [&] { end_trials(search_, target_, clock_, std::chrono::seconds(5), interrupted); });
  }

  const JobSpec kJob{.name = "fit-3", .job_dir = "d/3"};
  TempDirectory directory_;
  ManualClock clock_{{.sleep_advances = true}};
  PretendedTarget target_;
  JobRecord search_{.name = "fit", .folder = directory_ / "record"};
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

// As one of Slurm's that is preempted: it is put back into the queue.
TEST_F(TargetTrialsTest, ATrialThatWasTakenAwayHasNotFailed) {
  target_.now = {
      .state = JobState::kFailed, .exit_code = 137, .may_return = true, .was_taken_away = true};
  for (int look = 0; look < 3; ++look) EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  clock_.advance(TargetTrials::kForgotten - std::chrono::seconds(1));
  target_.now = {.state = JobState::kQueued};
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  target_.now = {
      .state = JobState::kFailed, .exit_code = 137, .may_return = true, .was_taken_away = true};
  clock_.advance(TargetTrials::kForgotten - std::chrono::seconds(1));
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(trials_.exit_code(3), 137);
}

// As on Kubernetes, whose Jobs do not know each other.
TEST_F(TargetTrialsTest, TheRestOfAFailedTrialIsEndedAfterItsLastLinesWereRead) {
  target_.lines = {"error: no folder"};
  target_.now = {.state = JobState::kFailed, .exit_code = 2, .may_return = true};
  EXPECT_EQ(trials_.exit_code(3), 2);
  EXPECT_EQ(target_.cancelled, "") << "its pods have the words";
  EXPECT_EQ(trials_.last_words(3), "error: no folder");
  EXPECT_EQ(target_.cancelled, "id of fit-3");
}

TEST_F(TargetTrialsTest, ATargetThatIsAwayIsReportedOnceEachTime) {
  const std::string words = "the target cannot be asked";
  for (int time = 0; time < 2; ++time) {
    ::testing::internal::CaptureStderr();
    target_.away = true;
    for (int look = 0; look < 3; ++look) EXPECT_EQ(trials_.exit_code(3), std::nullopt);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr(words));
    EXPECT_EQ(said.find(words), said.rfind(words));
    target_.away = false;
    EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  }
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
  // The search has given it up, and a later process looks again.
  target_.now.state = JobState::kRunning;
  EXPECT_EQ(trials_left(search_, target_, clock_).running, std::vector<int>{3});
  // A trial that the target does not know does not exist.
  target_.now = {.forgotten = true};
  EXPECT_EQ(trials_.exit_code(3), 1);
  target_.now.state = JobState::kRunning;
  EXPECT_TRUE(trials_left(search_, target_, clock_).running.empty());
}

TEST_F(TargetTrialsTest, TheLastErrorOfALogIsWhatATrialSays) {
  EXPECT_EQ(trials_.last_words(3), "");
  target_.lines = {"step 1", "ValueError: x", "  ", "[muster] stopped because chief-0 failed"};
  EXPECT_EQ(trials_.last_words(3), "ValueError: x");
  target_.lines = {"[worker-0] error: first", "[worker-1] error: second", "[worker-0] hint: that"};
  EXPECT_EQ(trials_.last_words(3), "error: second");
  target_.lines = {"E 12:03:45 NotFound: there is no digits", "  hint: make it"};
  EXPECT_EQ(trials_.last_words(3), "NotFound: there is no digits");
  target_.lines = {"E 12:03:45 InvalidArgument: --epoch is not a flag of mnist",
                   "  hint: did you mean --epochs? mnist --help shows what there is"};
  EXPECT_EQ(trials_.last_words(3),
            "InvalidArgument: --epoch is not a flag of mnist; did you mean --epochs?");
  EXPECT_EQ(trials_.log_of(3), "muster jobs logs --task=trial-3 fit");
}

// The steps of a process that comes after a killed one.
TEST_F(TargetTrialsTest, TrialsThatOutlivedTheirSearchAreFoundAndEnded) {
  EXPECT_EQ(trial_records(search_).at(3).id, "id of fit-3");
  EXPECT_EQ(trials_left(search_, target_, clock_).running, std::vector<int>{3});
  // It does not end: the wait is bounded, and names the trial.
  EXPECT_THAT(
      error_of([&] { end_trials(search_, target_, clock_, std::chrono::seconds(5)); }).message(),
      HasSubstr("trial 3 of the search fit was asked to end and runs on"));
  target_.ends = true;
  end_trials(search_, target_, clock_, std::chrono::seconds(5));
  EXPECT_EQ(target_.cancelled, "id of fit-3");
  EXPECT_TRUE(trials_left(search_, target_, clock_).running.empty());
  // If a trial was seen to end, the target is not asked again.
  EXPECT_EQ(trials_.exit_code(3), 143);
  target_.now = {.state = JobState::kRunning};
  EXPECT_TRUE(trials_left(search_, target_, clock_).running.empty());
}

TEST_F(TargetTrialsTest, ATrialThatBeginsAnewFindsNothingOfTheOne) {
  const std::string left = search_.folder + "/trials/3/log";
  local_file_system().write_atomically(left, "old").value();
  trials_.start(3, kJob);
  EXPECT_FALSE(local_file_system().exists(left).value());
  // Its target may keep the one before, by its name.
  EXPECT_EQ(trial_records(search_).at(3).id, "id of fit-3-r2");
  TargetTrials later(target_, search_, clock_);
  later.start(3, kJob);
  EXPECT_EQ(trial_records(search_).at(3).id, "id of fit-3-r3");
  EXPECT_EQ(target_.submissions.size(), 3u);
}

TEST_F(TargetTrialsTest, ATrialWithoutAnAnswerIsLookedFor) {
  submit_in_silence();
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  EXPECT_EQ(trials_.last_words(3), "");
  target_.away = true;
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  target_.away = false;
  target_.has_come = true;
  EXPECT_EQ(trials_.exit_code(3), std::nullopt);
  EXPECT_EQ(trial_records(search_).at(3).id, "id of fit-3-r2");
  target_.now = {.state = JobState::kSucceeded};
  EXPECT_EQ(trials_.exit_code(3), 0);
}

TEST_F(TargetTrialsTest, OneThatNeverComesHasFailed) {
  submit_in_silence();
  clock_.advance(TargetTrials::kForgotten);
  EXPECT_EQ(trials_.exit_code(3), 1);
  // A search that is stopped does not wait for it either; a process that continues the search looks
  // again.
  submit_in_silence();
  trials_.stop(3);
  EXPECT_EQ(target_.cancelled, "");
  EXPECT_EQ(trials_.exit_code(3), 1);
  target_.has_come = target_.ends = true;
  EXPECT_EQ(end_all(), "");
  EXPECT_EQ(target_.cancelled, "id of fit-3-r3");
}

TEST_F(TargetTrialsTest, AContinuedSearchWaitsForATrialThatMayStillCome) {
  submit_in_silence();
  EXPECT_TRUE(trials_left(search_, target_, clock_).running.empty());
  EXPECT_THAT(thrown_by([&] { cancel_trials(search_, target_, clock_); }),
              HasSubstr("the submission of trial 3 of the search fit to pretended did not end, and "
                        "it may still come"));
  // It comes while it is waited for.
  int looks = 0;
  target_.ends = true;
  EXPECT_EQ(end_all([&] {
              target_.has_come = ++looks > 3;
              return false;
            }),
            "");
  EXPECT_EQ(target_.cancelled, "id of fit-3-r2");

  // It never does: the wait is bounded, and can be left.
  target_.has_come = false;
  target_.cancelled = "";
  submit_in_silence();
  looks = 0;
  EXPECT_EQ(end_all([&] { return ++looks > 3; }), "");
  EXPECT_EQ(trials_left(search_, target_, clock_).awaited, std::vector<int>{3});
  const TimePoint begin = clock_.now();
  EXPECT_EQ(end_all(), "");
  EXPECT_LE(clock_.now() - begin, std::chrono::minutes(6));
  EXPECT_GE(clock_.now() - begin, std::chrono::minutes(4));
  EXPECT_TRUE(trials_left(search_, target_, clock_).awaited.empty());
  EXPECT_EQ(cancel_trials(search_, target_, clock_), 0);
  EXPECT_EQ(target_.cancelled, "");
}

TEST_F(TargetTrialsTest, ATrialThatWasRefusedIsNotWaitedFor) {
  target_.refuses = true;
  EXPECT_THROW(trials_.start(3, kJob), Error);
  target_.away = true;  // no process asks
  EXPECT_EQ(end_all(), "");
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
