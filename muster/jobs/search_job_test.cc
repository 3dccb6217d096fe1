// Searches as jobs of the store, on a target that is played; real ones: apps/muster/
// jobs_search_test.cc.
#include "muster/jobs/search_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/job_spec_json.h"
#include "muster/jobs/search_run.h"
#include "muster/jobs/target_trials.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::SizeIs;

// A target whose jobs have measured, and ended, when they are submitted, or run until they are
// cancelled.
class PlayedTarget : public Target {
 public:
  explicit PlayedTarget(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  std::vector<std::string> check(const JobSpec&) const override { return {}; }
  std::string describe(const JobSpec& job, const JobRecord&) const override { return job.name; }
  void submit(const JobSpec& job, JobRecord& record) override {
    if (on_submit) on_submit();
    local_file_system()
        .write_atomically(job.job_dir + "/output.metrics",
                          std::string_view(R"({"global_step": "1", "score": "0.5"})"))
        .value();
    record.id = job.name;
    if (!works) running.insert(record.id);
  }
  JobStatus status(const JobRecord& record) override {
    if (away) throw Error(ErrorKind::kUnavailable, "it is away", "");
    return {.state = running.contains(record.id) ? JobState::kRunning : JobState::kSucceeded};
  }
  void logs(const JobRecord&, const LogOptions&, const LogSink&) override {}
  void cancel(const JobRecord& record) override {
    if (on_cancel) on_cancel();
    running.erase(record.id);
  }

  bool works = true, away = false;
  std::set<std::string> running;
  std::function<void()> on_submit, on_cancel;

 private:
  std::string name_;
};

class SearchJobTest : public ::testing::Test {
 protected:
  SearchJobTest() {
    job_.program = {"/bin/train"};
    job_.pools = {{.role = "chief", .count = 1}};
    job_.job_dir = directory_ / "tune";
    job_.search = {.parameters = {{.name = "x",
                                   .type = HyperParameter::Type::kInteger,
                                   .min_value = 1,
                                   .max_value = 2}},
                   .max_trials = 2,
                   .metric_tag = "score",
                   .algorithm = HyperParameterSearch::Algorithm::kGrid};
    options_.status_of = [this](const JobRecord& record) {
      PlayedTarget& target = record.target == "lab" ? lab_ : cloud_;
      return is_search(record) ? search_status(record, target) : target.status(record);
    };
  }
  SearchJobResult run(Target& target) {
    return run_search_job(store_, target, job_, clock_, options_);
  }
  std::string why_not(Target& target) {
    return message_of([&] { (void)run(target); });
  }
  // Leaves a search as it is when its process is killed while its first trial runs.
  JobRecord leave_killed() {
    lab_.works = false;
    options_.interrupted = [&] { return !lab_.running.empty(); };
    lab_.on_cancel = [] { throw Error(ErrorKind::kUnavailable, "nobody cancels it", ""); };
    (void)run(lab_);
    lab_.on_cancel = nullptr;
    options_.interrupted = [] { return false; };
    const JobRecord record = store_.find("train-1");
    auto state = internal::read_state(record.folder).value();
    state.status = {.state = JobState::kRunning};
    internal::write_state(record.folder, state);
    EXPECT_THAT(lab_.running, ElementsAre("train-1-1"));
    lab_.works = true;
    return record;
  }

  TempDirectory directory_;
  ManualClock clock_{{.sleep_advances = true}};
  JobStore store_{directory_ / "jobs"};
  PlayedTarget lab_{"lab"}, cloud_{"cloud"};
  JobSpec job_;
  SearchJobOptions options_;
};

TEST_F(SearchJobTest, ASearchIsAJobWithARecord) {
  const SearchJobResult result = run(lab_);
  EXPECT_EQ(result.exit_code, 0) << result.summary;
  const JobRecord record = store_.find("train-1");
  EXPECT_TRUE(is_search(record));
  EXPECT_EQ(search_status(record, lab_).state, JobState::kSucceeded);
  EXPECT_THAT(trial_records(record), SizeIs(2));
  EXPECT_EQ(found_by(record)->trials().size(), 2u);
}

TEST_F(SearchJobTest, ItGoesOnUnderItsRecordWithAnotherMark) {
  const JobRecord killed = leave_killed();
  JobStatus status = search_status(killed, lab_);
  EXPECT_EQ(status.state, JobState::kFailed);
  EXPECT_EQ(status.left, 1);
  std::set<std::string> at_submission;
  lab_.on_submit = [&] { at_submission.insert(lab_.running.begin(), lab_.running.end()); };
  EXPECT_EQ(run(lab_).exit_code, 0);
  EXPECT_TRUE(at_submission.empty());  // what ran on was ended first
  ASSERT_THAT(store_.list(), SizeIs(1));
  EXPECT_NE(store_.find("train-1").submission, killed.submission);
}

// Where it was killed, and where it was interrupted and a trial did not end in time.
TEST_F(SearchJobTest, TrialsThatRunOnKeepTheDirectory) {
  const JobRecord record = leave_killed();
  EXPECT_THAT(why_not(cloud_), HasSubstr("was killed, and its trials may run on, on lab"));
  auto state = internal::read_state(record.folder).value();
  state.status = {.state = JobState::kCancelled, .detail = "it was interrupted"};
  internal::write_state(record.folder, state);
  EXPECT_THAT(
      why_not(cloud_),
      AllOf(HasSubstr("is that of the job train-1, which has ended, and 1 of its trials may run "
                      "on")));
  EXPECT_EQ(search_status(record, lab_).detail, "it was interrupted, and 1 of its trials run on");
  const auto check = [&] { check_job_dir(store_, job_.job_dir, options_.status_of); };
  EXPECT_THAT(message_of(check), HasSubstr("1 of its trials may run on"));
  lab_.away = true;
  EXPECT_THROW(check(), Error);
  lab_.away = false;
  cancel_search(record, lab_);
  EXPECT_TRUE(lab_.running.empty());
  check();
  EXPECT_EQ(run(cloud_).exit_code, 0);
}

TEST_F(SearchJobTest, ASearchOfAnotherMachineIsLeftAlone) {
  const JobRecord record = leave_killed();
  auto state = internal::read_state(record.folder).value();
  state.keeper.host = "elsewhere";
  internal::write_state(record.folder, state);
  EXPECT_THAT(why_not(lab_), HasSubstr("the search train-1, which runs on elsewhere"));
  EXPECT_THAT(message_of([&] { cancel_search(record, lab_); }), HasSubstr("elsewhere"));
  const JobStatus status = search_status(record, lab_);
  EXPECT_EQ(status.state, JobState::kUnknown);
  EXPECT_FALSE(status.forgotten);
}

// A command that cancels the remains of a kill and a command that continues the search exclude each
// other. Otherwise the new search would be marked as cancelled, and its directory as free.
TEST_F(SearchJobTest, WhileItsTrialsAreCancelledNobodyGoesOn) {
  const JobRecord record = leave_killed();
  std::string why;
  lab_.on_cancel = [&] {
    lab_.on_cancel = nullptr;
    why = why_not(lab_);
  };
  cancel_search(record, lab_);
  EXPECT_THAT(why, HasSubstr("is that of the job train-1, which is running"));
  EXPECT_EQ(internal::read_state(record.folder)->status.state, JobState::kCancelled);
  EXPECT_EQ(run(lab_).exit_code, 0);
}

TEST_F(SearchJobTest, WhoeverKeepsItIsAskedToEnd) {
  const JobRecord record = leave_killed();
  const pid_t keeper = fork();
  if (keeper == 0) {
    pause();
    _exit(0);
  }
  auto state = internal::read_state(record.folder).value();
  state.keeper = internal::keeper_of(keeper);
  internal::write_state(record.folder, state);
  {
    const FileDescriptor lock = internal::lock_folder(record.folder);
    EXPECT_EQ(search_status(record, lab_).state, JobState::kRunning);
    EXPECT_THAT(why_not(lab_), HasSubstr("which is running on lab"));
    cancel_search(record, lab_);
  }
  int word = 0;
  ASSERT_EQ(waitpid(keeper, &word, 0), keeper);
  EXPECT_TRUE(WIFSIGNALED(word) && WTERMSIG(word) == SIGTERM);
  // Its process stops the trials, and writes what became of it.
  EXPECT_THAT(lab_.running, SizeIs(1));
  EXPECT_EQ(internal::read_state(record.folder)->status.state, JobState::kRunning);
}

// Another process continues with it, and is over, between the look at the folder and the claim of
// it.
TEST_F(SearchJobTest, WhoeverCameBetweenWins) {
  (void)leave_killed();
  const SearchJobOptions plain = options_;
  bool came = false;
  options_.status_of = [&](const JobRecord& record) {
    const JobStatus before = plain.status_of(record);
    if (!std::exchange(came, true)) {
      EXPECT_EQ(run_search_job(store_, lab_, job_, clock_, plain).exit_code, 0);
    }
    return before;
  };
  EXPECT_THAT(why_not(lab_), HasSubstr("is that of the job train-1, which was submitted just now"));
  EXPECT_EQ(search_status(store_.find("train-1"), lab_).state, JobState::kSucceeded);
  EXPECT_EQ(run(lab_).exit_code, 0);
}

// Forgetting a search and continuing it exclude each other too.
TEST_F(SearchJobTest, WhoForgetsItAndWhoGoesOnDoNotMeet) {
  const JobRecord record = leave_killed();
  std::string why_kept;
  lab_.on_cancel = [&] { why_kept = reason_of([&] { forget_job(store_, record); }).value_or(""); };
  cancel_search(record, lab_);
  EXPECT_THAT(why_kept, HasSubstr("another command is at work on the job train-1"));
  lab_.on_cancel = nullptr;
  // It is forgotten between the look at the folder and the claim of it.
  const SearchJobOptions plain = options_;
  options_.status_of = [&](const JobRecord& one) {
    const JobStatus before = plain.status_of(one);
    if (store_.list().size() == 1) forget_job(store_, record);
    return before;
  };
  EXPECT_THAT(reason_of([&] { (void)run(lab_); }),
              Optional(HasSubstr("the job train-1 was forgotten just now")));
  EXPECT_THAT(store_.list(), SizeIs(0));
  options_ = plain;
  EXPECT_EQ(run(lab_).exit_code, 0);
  EXPECT_THAT(reason_of([&] { forget_job(store_, record); }),
              Optional(HasSubstr("at work on the job train-1")));
}

// As where it was killed before its first trial, or somebody emptied its folder.
TEST_F(SearchJobTest, ItBeginsUnderItsNameWhereItsFolderIsEmpty) {
  job_.name = "fit";
  EXPECT_EQ(run(lab_).exit_code, 0);
  std::filesystem::remove_all(job_.job_dir);
  EXPECT_EQ(run(lab_).exit_code, 0);
  EXPECT_THAT(store_.list(), SizeIs(1));
  // The name of another directory's stays taken.
  job_.job_dir = directory_ / "other";
  EXPECT_THAT(why_not(lab_), HasSubstr("there is a job 'fit' already"));
}

TEST_F(SearchJobTest, ADryRunSaysWhatIsInTheWay) {
  const auto reasons = [&](Target& target) {
    return reasons_against_search(store_, target, job_, options_);
  };
  EXPECT_THAT(reasons(lab_), SizeIs(0));
  JobSpec other = job_;
  other.search.reset();
  std::filesystem::create_directory(other.job_dir);  // as programs make it
  lab_.works = false;
  const JobRecord there = submit_job(store_, lab_, other, clock_, options_.status_of);
  EXPECT_THAT(reasons(cloud_), ElementsAre(AllOf(HasSubstr("is that of the job train-1, which is "
                                                           "running on lab"),
                                                 HasSubstr("; give this job another --job-dir"))));
  lab_.cancel(there);
  store_.remove(there);
  (void)leave_killed();
  // Its own trials are not hindrance; those of another target are.
  EXPECT_THAT(reasons(lab_), SizeIs(0));
  EXPECT_THAT(reasons(cloud_), Contains(HasSubstr("its trials may run on, on lab")));
  EXPECT_EQ(run(lab_).exit_code, 0);
  job_.args = {"--more"};
  EXPECT_THAT(reasons(lab_), ElementsAre(HasSubstr("holds a search that runs")));
  EXPECT_THAT(store_.list(), SizeIs(1));
}

TEST_F(SearchJobTest, TheTrialsOfTheSearchBeforeAreNotShownAsThoseOfThisOne) {
  (void)run(lab_);
  const JobRecord record = store_.find("train-1");
  ASSERT_TRUE(found_by(record));
  job_.search->metric_tag = "loss";
  local_file_system()
      .write_atomically(record.folder + "/" + internal::kJobFile, to_json_text(job_))
      .value();
  EXPECT_FALSE(found_by(record));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
