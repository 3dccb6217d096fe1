// The target against a server that stands in for Vertex AI: by the real gcloud where it is, by
// REST, and by a gcloud that notes what it was asked.
#include "muster/jobs/vertex_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/internal/leaf_disease_job.h"
#include "muster/jobs/internal/stand_in_vertex.h"
#include "muster/jobs/internal/tool.h"
#include "muster/jobs/internal/vertex_api.h"

namespace muster::inline v0_1::jobs {
namespace {

using internal::gcloud_vertex_api;
using internal::rest_vertex_api;
using internal::RestEndpoints;
using internal::vertex_job;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Google's JSON has numbers of 64 bits as texts; here both are numbers.
json with_numbers(json value) {
  if (value.is_string()) {
    const auto number = parse_int(value.get<std::string>());
    if (number) return *number;
  }
  if (value.is_structured()) {
    for (json& item : value) item = with_numbers(item);
  }
  return value;
}

json log_entry(const std::string& id, const std::string& task, const std::string& message) {
  return {{"insertId", id},
          {"timestamp", "2030-01-01T00:00:0" + id + "Z"},
          {"logName", "projects/lab/logs/" + task},
          {"resource", {{"type", "ml_job"}, {"labels", {{"job_id", "7"}, {"task_name", task}}}}},
          {"jsonPayload", {{"message", message}}}};
}

class RealGcloud : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!internal::tool_is_there("gcloud")) {
      GTEST_SKIP() << "needs gcloud, which Debian does not have";
    }
    std::ofstream(folder_ / "token") << "a-token\n";
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"CLOUDSDK_CONFIG", folder_ / "gcloud"},
             {"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE", folder_ / "token"},
             {"CLOUDSDK_CORE_PROJECT", "lab"},
             {"CLOUDSDK_CORE_DISABLE_USAGE_REPORTING", "1"},
             {"CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK", "1"},
             {"CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", server_.address() + "/"},
             {"CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING", server_.address() + "/"}}) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    record_ = {.name = "leaf-disease-1", .target = "vertex", .folder = folder_.path()};
  }

  TempDirectory folder_;
  internal::StandInVertex server_;
  VertexTarget target_{{}, gcloud_vertex_api()};
  JobRecord record_;
};

// One job from its beginning to its end: gcloud takes a second for each question.
TEST_F(RealGcloud, SendsTheJobAndAsksForIt) {
  const JobSpec job = internal::leaf_disease_job();
  target_.submit(job, record_);
  EXPECT_EQ(record_.id, "projects/lab/locations/us-central1/customJobs/7");
  EXPECT_EQ(server_.authorization(), "Bearer a-token");
  EXPECT_THAT(server_.requests().back(),
              HasSubstr("POST /v1/projects/lab/locations/us-central1/customJobs"));
  json arrived = with_numbers(server_.created());
  const std::string token =
      arrived["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"].back()["value"];
  EXPECT_EQ(token.size(), 64u);
  EXPECT_EQ(arrived, with_numbers(json(vertex_job(job, record_.name, {}, token).resource)));
  // The file that held the token is gone.
  for (const std::string& file : local_file_system().list_directory(folder_.path()).value()) {
    EXPECT_NE(file, "job.json");
  }

  target_.cancel(record_);  // it asks for the state first
  EXPECT_THAT(server_.requests(), Contains(HasSubstr("GET /v1/" + record_.id)));
  EXPECT_THAT(server_.requests().back(), HasSubstr("customJobs/7:cancel"));

  server_.set_log({log_entry("1", "workerpool0-0", "step 1"),
                   log_entry("2", "workerpool1-0", "step 1\n"),
                   log_entry("3", "service", "Job completed.")});
  std::vector<std::string> lines;
  target_.logs(record_, {}, [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines,
              ElementsAre("[chief-0] step 1", "[worker-0] step 1", "[service] Job completed."));
}

TEST_F(RealGcloud, SendsATuningJob) {
  JobSpec job = internal::leaf_disease_job();
  job.labels = {{"team", "leaf"}};
  job.search =
      HyperParameterSearch{.parameters = {{.name = "rate", .min_value = 0.1, .max_value = 1}},
                           .max_trials = 8,
                           .max_parallel_trials = 2};
  target_.submit(job, record_);
  json arrived = with_numbers(server_.created());
  const auto& environment = arrived["trialJobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"];
  const std::string token = environment.back()["value"];
  EXPECT_EQ(arrived, with_numbers(json(vertex_job(job, record_.name, {}, token).resource)));
  EXPECT_EQ(record_.id, "projects/lab/locations/us-central1/hyperparameterTuningJobs/7");
}

TEST_F(RealGcloud, FindsAJobByItsLabel) {
  record_.submission = "s1";
  target_.submit(internal::leaf_disease_job(), record_);
  JobRecord lost = record_;
  lost.id.clear();
  EXPECT_TRUE(target_.recognise(lost)) << server_.requests().back();
  EXPECT_EQ(lost.id, record_.id);
  lost.submission = "s2";
  EXPECT_FALSE(target_.recognise(lost)) << server_.requests().back();
}

TEST_F(RealGcloud, WithoutCredentialsNothingIsSent) {
  unsetenv("CLOUDSDK_AUTH_ACCESS_TOKEN_FILE");
  const Error error = error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  EXPECT_THAT(error.hint(), HasSubstr("gcloud auth login"));
  EXPECT_THAT(server_.requests(), IsEmpty());
}

// Without gcloud: the credentials are those of a machine of Google's.
class Rest : public ::testing::Test {
 protected:
  std::string host() const { return server_.address().substr(std::string("http://").size()); }

  TempDirectory folder_;
  internal::StandInVertex server_;
  VertexTarget target_{
      {.place = {.project = "lab"}},
      rest_vertex_api({{"GCE_METADATA_HOST", host()}, {"HOME", folder_.path()}},
                      {.vertex = server_.address(), .logging = server_.address()})};
  JobRecord record_{.name = "leaf-disease-1", .target = "vertex", .folder = folder_.path()};
};

TEST_F(Rest, SendsTheJobAndFollowsItToItsEnd) {
  const JobSpec job = internal::leaf_disease_job();
  target_.submit(job, record_);
  EXPECT_EQ(record_.id, "projects/lab/locations/us-central1/customJobs/7");
  EXPECT_EQ(server_.authorization(), "Bearer a-token");
  const json arrived = server_.created();
  const std::string token =
      arrived["jobSpec"]["workerPoolSpecs"][1]["containerSpec"]["env"].back()["value"];
  EXPECT_EQ(arrived, json(vertex_job(job, record_.name, {}, token).resource));

  EXPECT_EQ(target_.status(record_).state, JobState::kQueued);
  server_.set_log(
      {log_entry("1", "workerpool0-0", "step 1"), log_entry("2", "workerpool1-0", "step 1")});
  std::vector<std::string> lines;
  const LogSink keep = [&](std::string_view line) { lines.emplace_back(line); };
  target_.logs(record_, {.tail = 1}, keep);
  EXPECT_THAT(lines, ElementsAre("[worker-0] step 1"));
  target_.cancel(record_);
  EXPECT_EQ(target_.status(record_).state, JobState::kCancelled);
  const size_t asked = server_.requests().size();
  target_.cancel(record_);  // again: it only looks
  EXPECT_EQ(server_.requests().size(), asked + 1);
  lines.clear();
  target_.logs(record_, {.follow = true}, keep);
  EXPECT_THAT(lines, ElementsAre("[chief-0] step 1", "[worker-0] step 1"));
}

TEST_F(Rest, WithoutCredentialsOrAProjectNothingIsSent) {
  const RestEndpoints endpoints{.vertex = server_.address(), .logging = server_.address()};
  const JobSpec job = internal::leaf_disease_job();
  VertexTarget nobody(
      {.place = {.project = "lab"}},
      rest_vertex_api({{"NO_GCE_CHECK", "true"}, {"HOME", folder_.path()}}, endpoints));
  const Error error = error_of([&] { nobody.submit(job, record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("no credentials"));
  EXPECT_THAT(error.hint(), HasSubstr("GOOGLE_APPLICATION_CREDENTIALS"));
  VertexTarget nowhere({}, rest_vertex_api({{"GCE_METADATA_HOST", host()}}, endpoints));
  const Error lacking = error_of([&] { nowhere.submit(job, record_); });
  EXPECT_THAT(lacking.message(), HasSubstr("no project"));
  EXPECT_THAT(lacking.hint(), AllOf(HasSubstr("--project=PROJECT"),
                                    HasSubstr("export GOOGLE_CLOUD_PROJECT=PROJECT")));
  EXPECT_THAT(server_.requests(), Not(Contains(HasSubstr("customJobs"))));
}

// Where neither flag nor job names a project the environment may; the record keeps it.
TEST_F(Rest, TheEnvironmentNamesAProject) {
  const JobSpec job = internal::leaf_disease_job();
  Environment environment = {{"GCE_METADATA_HOST", host()}, {"CLOUDSDK_CORE_PROJECT", "core"}};
  const auto project = [&](const VertexPlace& place) {
    JobRecord record = record_;
    VertexTarget({.place = place}, rest_vertex_api(environment, {})).locate(job, record);
    return record.details["project"];
  };
  EXPECT_EQ(project({}), "core");
  environment = {{"CLOUDSDK_CORE_PROJECT", "core"}, {"GOOGLE_CLOUD_PROJECT", "cloud"}};
  EXPECT_EQ(project({}), "cloud");
  EXPECT_EQ(project({.project = "flag"}), "flag");
}

TEST_F(Rest, WhatIsRefusedIsPassedOn) {
  JobSpec job = internal::leaf_disease_job();
  job.pools[0].count = 2;  // the first pool has one task
  const Error error = error_of([&] { target_.submit(job, record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("create the job 'leaf-disease-1' on Vertex AI"),
                                  HasSubstr("pool 0 has not 1 task")));
}

// A gcloud that notes its words in a file, keeps the configuration, and prints what a test says.
class NotedGcloud : public ::testing::Test {
 protected:
  NotedGcloud() {
    std::ofstream(folder_ / "gcloud")
        << "#!/bin/sh\nfor word; do echo \"$word\"; case $word in --config=*) cp \"${word#*=}\" '"
        << folder_ / "config"
        << "';; esac; done >'" << folder_ / "words"
        << "'\n[ \"$3\" = list ] && [ -e '" << folder_ / "list"
        << "' ] && exec cat '" << folder_ / "list"
        << "'\ncat '" << folder_ / "answer"
        << "'\ncat '" << folder_ / "complaint"
        << "' >&2\nexit $(cat '" << folder_ / "code"
        << "')\n";
    chmod((folder_ / "gcloud").c_str(), 0700);
    answer(R"({"name": "projects/1/locations/us-central1/customJobs/7"})");
  }
  void answer(const std::string& text, int code = 0, const std::string& complaint = "") {
    std::ofstream(folder_ / "answer") << text;
    std::ofstream(folder_ / "complaint") << complaint;
    std::ofstream(folder_ / "code") << code;
  }
  std::vector<std::string> words() const {
    return split(trim(local_file_system().read_file(folder_ / "words").value()), '\n');
  }

  TempDirectory folder_;
  VertexTarget target_{{.place = {.project = "lab"}}, gcloud_vertex_api(folder_ / "gcloud")};
  JobRecord record_{.name = "leaf-disease-1", .target = "vertex", .folder = folder_.path()};
};

TEST_F(NotedGcloud, GetsTheWordsThatAreDescribed) {
  const JobSpec job = internal::leaf_disease_job();
  target_.submit(job, record_);
  EXPECT_EQ(record_.id, "projects/1/locations/us-central1/customJobs/7");
  EXPECT_THAT(words(),
              ElementsAre("ai", "custom-jobs", "create", "--region=us-central1",
                          "--display-name=leaf-disease-1", "--config=" + folder_ / "job.json",
                          "--project=lab", "--format=json", "--quiet"));
  const json sent = json::parse(local_file_system().read_file(folder_ / "config").value());
  const std::string token = sent["workerPoolSpecs"][0]["containerSpec"]["env"].back()["value"];
  EXPECT_EQ(sent, json(vertex_job(job, record_.name, {}, token).resource["jobSpec"]));
  const std::string text = target_.describe(job, record_);
  EXPECT_THAT(text, AllOf(HasSubstr("# gcloud ai custom-jobs create --region=us-central1 "
                                    "--display-name=leaf-disease-1 --config=job.json"),
                          Not(HasSubstr(token)), Not(HasSubstr("\"MUSTER_JOB_TOKEN\""))));
}

TEST_F(NotedGcloud, WithoutAProjectTheErrorSaysWhereOneIsNamed) {
  answer("", 1,
         "ERROR: (gcloud.ai.custom-jobs.create) The required property [project] is not "
         "currently set.");
  const Error error = error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("no project is named"));
  EXPECT_THAT(error.hint(),
              AllOf(HasSubstr("--project=PROJECT"), HasSubstr("gcloud config set project PROJECT"),
                    HasSubstr("CLOUDSDK_CORE_PROJECT")));
}

TEST_F(NotedGcloud, StatesAreUnderstood) {
  record_.id = "projects/1/locations/us-central1/customJobs/7";
  record_.details = {{"region", "us-central1"}};
  answer(R"({"state": "JOB_STATE_FAILED", "error": {"code": 3, "message":
         "The replica workerpool1-0 exited with a non-zero status of 2. Look at the log."}})");
  const JobStatus failed = target_.status(record_);
  EXPECT_EQ(failed.state, JobState::kFailed);
  EXPECT_EQ(failed.exit_code, 2);
  EXPECT_THAT(failed.detail, HasSubstr("workerpool1-0"));
  EXPECT_THAT(words(), ElementsAre("ai", "custom-jobs", "describe", record_.id,
                                   "--region=us-central1", "--format=json", "--quiet"));
  for (const auto& [word, state] :
       std::vector<std::pair<std::string, JobState>>{{"QUEUED", JobState::kQueued},
                                                     {"PENDING", JobState::kQueued},
                                                     {"RUNNING", JobState::kRunning},
                                                     {"CANCELLING", JobState::kEnding},
                                                     {"SUCCEEDED", JobState::kSucceeded},
                                                     {"CANCELLED", JobState::kCancelled},
                                                     {"OF_TOMORROW", JobState::kUnknown}}) {
    answer(R"({"state": "JOB_STATE_)" + word + "\"}");
    EXPECT_EQ(target_.status(record_).state, state) << word;
    EXPECT_FALSE(target_.status(record_).forgotten);
  }
  EXPECT_EQ(target_.status(record_).detail, "Vertex AI says 'JOB_STATE_OF_TOMORROW'");
  answer("", 1, "ERROR: (gcloud.ai.custom-jobs.describe) NOT_FOUND: no job");
  EXPECT_EQ(target_.status(record_).state, JobState::kUnknown);
  EXPECT_TRUE(target_.status(record_).forgotten);
}

TEST_F(NotedGcloud, WhatItComplainsOfIsPassedOn) {
  const auto error = [&](const std::string& complaint) {
    answer("", 1, complaint);
    return error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
  };
  const Error denied = error("ERROR: (gcloud.ai) PERMISSION_DENIED: no");
  EXPECT_EQ(denied.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(denied.message(), HasSubstr("cannot create the job 'leaf-disease-1' on Vertex AI"));
  EXPECT_THAT(denied.hint(), HasSubstr("roles/aiplatform.user"));
  EXPECT_EQ(error("ERROR: UNAVAILABLE: later").kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(record_.id.empty());
  // That a quota is used up is a refusal, though one that passes.
  answer("", 1, "ERROR: RESOURCE_EXHAUSTED: quota exceeded for custom_model_training_cpus");
  try {
    target_.submit(internal::leaf_disease_job(), record_);
    ADD_FAILURE() << "no error";
  } catch (const UnclearSubmission& unclear) {
    ADD_FAILURE() << unclear.message();
  } catch (const Error& quota) {
    EXPECT_EQ(quota.kind(), ErrorKind::kUnavailable);
  }
}

// The job may be there although nobody said so.
TEST_F(NotedGcloud, ASubmissionWithoutAnAnswerIsRecognised) {
  record_.submission = "s1";
  answer("", 1, "ERROR: UNAVAILABLE: deadline exceeded");
  std::ofstream(folder_ / "list") << "[]";
  EXPECT_THROW(target_.submit(internal::leaf_disease_job(), record_), UnclearSubmission);
  answer("", 1, "ERROR: gcloud crashed (ConnectionError): ('Connection aborted.', Reset)");
  EXPECT_THROW(target_.submit(internal::leaf_disease_job(), record_), UnclearSubmission);
  EXPECT_THAT(words(),
              ElementsAre("ai", "custom-jobs", "list", "--filter=labels.muster-submission=s1",
                          "--region=us-central1", "--project=lab", "--format=json", "--quiet"));
  EXPECT_FALSE(target_.recognise(record_));
  std::ofstream(folder_ / "list")
      << R"([{"name": "projects/1/locations/us-central1/customJobs/9"}])";
  target_.submit(internal::leaf_disease_job(), record_);
  EXPECT_EQ(record_.id, "projects/1/locations/us-central1/customJobs/9");
  // What never arrived is clear.
  answer("", 1, "ERROR: UNAVAILABLE: Connection refused");
  EXPECT_THAT(error_of([&] { target_.submit(internal::leaf_disease_job(), record_); }).hint(),
              "try again");
}

TEST_F(NotedGcloud, AnswersOfAnotherFormAreErrors) {
  for (const char* text :
       {"", "{", "[]", "7", "<html>busy</html>", R"({"name": 7, "state": []})"}) {
    answer(text);
    record_.id.clear();
    const Error made = error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
    EXPECT_EQ(made.kind(), ErrorKind::kUnavailable) << text;
    EXPECT_THAT(made.message(), HasSubstr("gcloud ai custom-jobs create")) << text;
    record_.id = "projects/1/locations/us-central1/customJobs/7";
    const Error asked = error_of([&] { target_.status(record_); });
    EXPECT_EQ(asked.kind(), ErrorKind::kUnavailable) << text;
    EXPECT_THAT(asked.message(), HasSubstr("custom-jobs describe")) << text;
  }
  answer(R"({"state": "JOB_STATE_FAILED", "error": "no object"})");
  EXPECT_EQ(target_.status(record_).state, JobState::kFailed);
}

// The same by REST, and lines of a log that lack what they mostly have.
TEST_F(Rest, AnswersOfAnotherFormAreErrors) {
  record_.submission = "s1";
  target_.submit(internal::leaf_disease_job(), record_);
  EXPECT_EQ(server_.created()["labels"]["muster-submission"], "s1");
  JobRecord lost{.name = "a", .details = record_.details, .submission = "s1"};
  EXPECT_TRUE(target_.recognise(lost));
  EXPECT_EQ(lost.id, record_.id);
  lost.submission = "s2";
  EXPECT_FALSE(target_.recognise(lost));
  server_.set_log({1, {{"textPayload", 7}}, {{"jsonPayload", {{"a", 1}}}}, nullptr});
  std::vector<std::string> lines;
  target_.logs(record_, {}, [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines, ElementsAre("[service] ", "[service] ", "[service] {\"a\":1}", "[service] "));
  server_.set_answer("{\"state\"");
  const Error error = error_of([&] { target_.status(record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("GET http://"), HasSubstr("not a whole JSON")));
  EXPECT_THAT(error_of([&] { target_.logs(record_, {}, [](std::string_view) {}); }).message(),
              HasSubstr("not a whole JSON"));
}

// Vertex AI shows the variables of a job to every user who may read the job.
TEST(VertexTarget, ATokenIsSpokenOfAndCanBeLeftOut) {
  VertexTarget target({.show_secrets = true}, gcloud_vertex_api());
  JobSpec job = internal::leaf_disease_job();
  const JobRecord record{.name = "a"};
  const auto shows_token = [&] {
    return target.describe(job, record).find("\"MUSTER_JOB_TOKEN\"") != std::string::npos;
  };
  EXPECT_THAT(target.check(job), Contains(HasSubstr("can read this job's token")));
  EXPECT_TRUE(shows_token());
  using Variables = std::vector<std::pair<std::string, std::string>>;
  const Variables certificates = {{"MUSTER_TLS_CERT", "/run/cert.pem"},
                                  {"MUSTER_TLS_KEY", "/run/key.pem"},
                                  {"MUSTER_TLS_CA", "/run/ca.pem"}};
  for (const Variables& own : {Variables{{"MUSTER_JOB_TOKEN_FILE", "/run/token"}},
                               Variables{{"MUSTER_INSECURE", "1"}}, certificates}) {
    for (Pool& pool : job.pools) pool.environment = own;
    EXPECT_THAT(target.check(job), Not(Contains(HasSubstr("token"))));
    EXPECT_FALSE(shows_token()) << own.front().first;
    // All must have it.
    job.pools[1].environment.clear();
    EXPECT_TRUE(shows_token()) << own.front().first;
  }
  for (Pool& pool : job.pools) pool.environment = {{"MUSTER_INSECURE", "0"}};
  EXPECT_TRUE(shows_token());
  job.pools[0].environment = {{"MUSTER_JOB_TOKEN", "of_another_job_altogether"}};
  EXPECT_THAT(message_of([&] { target.check(job); }), HasSubstr("sets MUSTER_JOB_TOKEN"));
  // One task has nobody to meet.
  job = internal::leaf_disease_job();
  job.pools.pop_back();
  EXPECT_THAT(target.check(job), Not(Contains(HasSubstr("token"))));
}

TEST(VertexTarget, NeedsARegionAndATool) {
  const TempDirectory folder;
  VertexTarget target({}, gcloud_vertex_api(folder / "gcloud"));
  JobSpec job = internal::leaf_disease_job();
  JobRecord record{.name = "a", .folder = folder.path()};
  EXPECT_EQ(error_of([&] { target.submit(job, record); }).kind(), ErrorKind::kNotFound);
  job.region.clear();
  const Error error = error_of([&] { target.check(job); });
  EXPECT_THAT(error.message(), HasSubstr("no region"));
  EXPECT_THAT(error.hint(), HasSubstr("--region=us-central1"));
}

// What is only printed needs no place.
TEST(VertexTarget, AJobIsDescribedWithoutARegionAndAProject) {
  const VertexTarget target({.only_described = true}, gcloud_vertex_api());
  JobSpec job = internal::leaf_disease_job();
  job.region.clear();
  EXPECT_THAT(target.check(job), Contains(HasSubstr("cannot be submitted: the job names no "
                                                    "region")));
  EXPECT_THAT(target.describe(job, {.name = "a"}), HasSubstr("create --region=REGION --display"));
}

// Both become parts of addresses to which credentials are sent.
TEST(VertexTarget, ARegionIsNoWayToAnotherServer) {
  const VertexTarget target({}, gcloud_vertex_api());
  for (const char* region : {"evil.example/", "us-central1.evil.example:80#", "us central1",
                             "user@evil", "-x", "us-central1\n"}) {
    JobSpec job = internal::leaf_disease_job();
    job.region = region;
    EXPECT_THAT(message_of([&] { target.check(job); }), HasSubstr("region")) << region;
  }
  for (const char* project : {"../lab", "a/b", "-x", "a b"}) {
    JobSpec job = internal::leaf_disease_job();
    job.project = project;
    EXPECT_THAT(message_of([&] { target.check(job); }), HasSubstr("project")) << project;
  }
  JobSpec job = internal::leaf_disease_job();
  for (const char* project : {"lab-7", "example.com:lab", "123456"}) {
    job.project = project;
    EXPECT_NO_THROW(target.check(job)) << project;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
