#include "muster/jobs/submit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/final_status.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A target that looks at the store while it is given a job.
class LookingTarget : public Target {
 public:
  explicit LookingTarget(const JobStore& store) : store_(store) {}
  std::string_view name() const override { return "looking"; }
  std::vector<std::string> check(const JobSpec&) const override { return {}; }
  std::string describe(const JobSpec&, const JobRecord&) const override { return ""; }
  void submit(const JobSpec& job, JobRecord& record) override {
    meanwhile = store_.find(job.name);
    if (refuses) throw invalid_argument("no", "");
    record.id = "7";
  }
  JobStatus status(const JobRecord&) override { return {}; }
  void logs(const JobRecord&, const LogOptions&, const LogSink&) override {}
  void cancel(const JobRecord&) override {}
  bool frees_names() const override { return frees; }

  bool refuses = false;
  bool frees = true;
  JobRecord meanwhile;

 private:
  const JobStore& store_;
};

const StatusOf unknown = [](const JobRecord&) { return JobStatus{}; };

// A process that is killed while a target takes long leaves a record, by which the name can be
// freed.
TEST(SubmitTest, ThereIsARecordBeforeTheTargetIsAsked) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  LookingTarget target(store);
  ManualClock clock;
  const JobSpec job{.name = "fit", .program = {"train"}, .job_dir = "d"};
  const JobRecord record = submit_job(store, target, job, clock, unknown);
  EXPECT_EQ(target.meanwhile.id, "");
  // By its whole path, so that a later command knows it from another folder.
  EXPECT_EQ(target.meanwhile.job_dir, std::filesystem::absolute("d").string());
  EXPECT_EQ(store.find("fit"), record);
  EXPECT_EQ(record.id, "7");
  store.remove(record);

  target.refuses = true;
  EXPECT_THROW(submit_job(store, target, job, clock, unknown), Error);
  EXPECT_THAT(store.list(), IsEmpty());
}

// The same command continues under its own name; another command gets an error.
TEST(SubmitTest, TheSameJobTakesItsNameAgainWhenItHasEnded) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  LookingTarget target(store);
  ManualClock clock;
  const JobSpec job{.name = "fit",
                    .program = {"train"},
                    .pools = {{.role = "chief", .count = 1}},
                    .job_dir = "d"};
  const auto as = [](JobState state) {
    return [state](const JobRecord&) { return JobStatus{.state = state}; };
  };
  const JobRecord first = submit_job(store, target, job, clock, unknown);
  for (const JobState state :
       {JobState::kUnknown, JobState::kQueued, JobState::kRunning, JobState::kEnding})
    EXPECT_THROW(submit_job(store, target, job, clock, as(state)), Error) << to_string(state);
  JobSpec other = job;
  other.args = {"--more"};
  EXPECT_THROW(submit_job(store, target, other, clock, as(JobState::kFailed)), Error);
  other = job;
  other.job_dir = "e";
  EXPECT_THROW(submit_job(store, target, other, clock, as(JobState::kFailed)), Error);
  target.frees = false;
  EXPECT_THROW(submit_job(store, target, job, clock, as(JobState::kFailed)), Error);
  EXPECT_EQ(store.find("fit"), first);

  target.frees = true;
  for (const JobState state : {JobState::kFailed, JobState::kSucceeded, JobState::kCancelled}) {
    EXPECT_THAT(reasons_against(store, target, job, as(state)), IsEmpty());
    const JobRecord before = store.find("fit");
    const JobRecord again = submit_job(store, target, job, clock, as(state));
    EXPECT_NE(again.submission, before.submission);
    EXPECT_THAT(store.list(), ElementsAre(again));
  }
  // A job that is known nowhere any more has ended too.
  const auto forgotten = [](const JobRecord&) { return JobStatus{.forgotten = true}; };
  for (const bool frees : {true, false}) {
    target.frees = frees;
    EXPECT_THAT(store.list(), ElementsAre(submit_job(store, target, job, clock, forgotten)));
  }
  // Also if its end was seen before it was forgotten, as on Kubernetes.
  JobStatus now{.state = JobState::kSucceeded};
  const auto remembered = [&](const JobRecord& record) {
    return final_or_current_status(record, [&] { return now; });
  };
  EXPECT_THROW(submit_job(store, target, job, clock, remembered), Error);
  EXPECT_EQ(final_status(store.find("fit"))->state, JobState::kSucceeded);
  now = {.forgotten = true};
  EXPECT_THAT(store.list(), ElementsAre(submit_job(store, target, job, clock, remembered)));
  target.frees = true;
  // If the new one is refused, the old one is restored with all its files.
  const JobRecord before = store.find("fit");
  const std::string log = before.folder + "/all.log";
  local_file_system().write_atomically(log, std::string_view("epoch 7\n")).value();
  target.refuses = true;
  EXPECT_THROW(submit_job(store, target, job, clock, as(JobState::kFailed)), Error);
  EXPECT_THAT(store.list(), ElementsAre(before));
  EXPECT_EQ(local_file_system().read_file(log).value(), "epoch 7\n");
}

// Between the look at a job and its end in the store the same command may take its name.
TEST(SubmitTest, AJobThatBeganAnewIsNotForgotten) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  LookingTarget target(store);
  ManualClock clock;
  const JobSpec job{.name = "fit", .program = {"train"}, .job_dir = "d"};
  const JobRecord looked_at = submit_job(store, target, job, clock, unknown);
  const auto ended = [](const JobRecord&) { return JobStatus{.state = JobState::kFailed}; };
  const JobRecord anew = submit_job(store, target, job, clock, ended);
  EXPECT_THROW(forget_job(store, looked_at), Error);
  EXPECT_THAT(store.list(), ElementsAre(anew));
  // Records that a killed submission had put aside are removed too.
  std::filesystem::create_directory(directory / "jobs/.fit");
  forget_job(store, anew);
  EXPECT_THAT(store.list(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(directory / "jobs/.fit"));
  EXPECT_THROW(forget_job(store, anew), Error);
}

// A directory is free if no task of its job can run, but not if that is unknown.
TEST(SubmitTest, ADirectoryIsThatOfAJobWhoseTargetDoesNotAnswer) {
  const TempDirectory directory;
  JobStore store(directory / "jobs");
  LookingTarget target(store);
  ManualClock clock;
  const std::string dir = directory / "d";
  submit_job(store, target, {.name = "fit", .program = {"train"}, .job_dir = dir}, clock, unknown);
  const auto why_taken = [&](const JobStatus& status) -> std::string {
    try {
      check_job_dir(store, dir, [&](const JobRecord& record) {
        EXPECT_EQ(record.name, "fit");
        return status;
      });
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      return error.message() + "; " + error.hint();
    }
  };
  EXPECT_THAT(why_taken({.detail = "it is away"}),
              AllOf(HasSubstr("the job directory " + dir +
                              " is that of the job fit, of which "
                              "looking does not tell how it is: it is away; "),
                    HasSubstr("wait, and try again"), HasSubstr("muster jobs remove fit")));
  EXPECT_EQ(why_taken({.forgotten = true}), "");
  for (const JobState ended : {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled})
    EXPECT_EQ(why_taken({.state = ended}), "");
  for (const JobState there : {JobState::kQueued, JobState::kRunning})
    EXPECT_THAT(why_taken({.state = there}), HasSubstr("muster jobs cancel fit"));
  EXPECT_THAT(why_taken({.state = JobState::kFailed, .left = 2}),
              AllOf(HasSubstr("which has ended, and 2 of its trials may run on"),
                    HasSubstr("muster jobs cancel fit")));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
