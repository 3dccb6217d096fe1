// The target drives the real kubectl against a stand-in for the cluster's API server.
#include "muster/jobs/kubernetes_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "muster/base/clock.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/jobs/internal/leaf_disease_job.h"
#include "muster/jobs/internal/stand_in_cluster.h"
#include "muster/jobs/internal/tool.h"
#include "muster/jobs/target_trials.h"
#include "muster/jobs/task_error.h"

namespace muster::inline v0_1::jobs {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class KubernetesTargetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!internal::tool_is_there("kubectl")) {
      GTEST_SKIP() << "needs kubectl, which Debian does not have";
    }
    cluster_.write_configuration(folder_ / "config");
    // kubectl keeps its discovery below HOME.
    setenv("KUBECONFIG", (folder_ / "config").c_str(), 1);
    setenv("HOME", folder_.path().c_str(), 1);
    record_ = {.name = "leaf-disease-1", .target = "kubernetes", .folder = folder_.path()};
  }

  void TearDown() override { EXPECT_THAT(cluster_.unknown_requests(), IsEmpty()); }

  // The pod that a Job would make for the task.
  json pod(const std::string& role, int index, const std::string& phase, json state,
           const std::string& created = "2030-01-01T00:00:00Z") {
    const std::string name = "leaf-disease-1-" + role + "-" + std::to_string(index);
    return {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"name", name + "-" + std::to_string(++pods_)},
          {"namespace", "lab"},
          {"creationTimestamp", created},
          {"annotations", {{"batch.kubernetes.io/job-completion-index", std::to_string(index)}}},
          {"labels",
           {{"app.kubernetes.io/managed-by", "muster"},
            {"app.kubernetes.io/instance", "leaf-disease-1"},
            {"app.kubernetes.io/component", role}}}}},
        {"spec", {{"containers", {{{"name", "program"}, {"image", "x"}}}}}},
        {"status",
         {{"phase", phase},
          {"containerStatuses", {{{"name", "program"}, {"state", std::move(state)}}}}}}};
  }
  void end_job(const std::string& role, const char* type, const std::string& reason = "",
               const std::string& message = "") {
    json job = cluster_.find("jobs", "leaf-disease-1-" + role);
    job["status"]["conditions"] = {
        {{"type", type}, {"status", "True"}, {"reason", reason}, {"message", message}}};
    cluster_.put("jobs", job);
  }

  TempDirectory folder_;
  internal::StandInCluster cluster_;
  KubernetesTarget target_{{}};
  JobRecord record_;
  int pods_ = 0;
};

const json kRunning = {{"running", {{"startedAt", "2030-01-01T00:00:01Z"}}}};
json ended(int code) { return {{"terminated", {{"exitCode", code}}}}; }

// The described documents are the ones that arrive, with owners and a token that is never shown.
TEST_F(KubernetesTargetTest, CreatesWhatItDescribes) {
  const JobSpec job = internal::leaf_disease_job();
  target_.submit(job, record_);
  EXPECT_EQ(record_.id, "leaf-disease-1");
  EXPECT_EQ(record_.details.at("namespace"), "lab");

  const KubernetesManifests manifests = kubernetes_manifests(job, record_.name, {});
  const json leading = cluster_.find("jobs", "leaf-disease-1-chief");
  for (const auto& document : manifests.documents) {
    const std::string kind = document.at("kind");
    json arrived = cluster_.find(kind == "Job" ? "jobs" : "services", document["metadata"]["name"]);
    ASSERT_FALSE(arrived.is_null()) << document;
    if (arrived != leading) {
      EXPECT_EQ(arrived["metadata"]["ownerReferences"],
                json::array({{{"apiVersion", "batch/v1"},
                              {"kind", "Job"},
                              {"name", "leaf-disease-1-chief"},
                              {"uid", leading["metadata"]["uid"]}}}));
    }
    for (const char* added : {"uid", "namespace", "ownerReferences"}) {
      arrived["metadata"].erase(added);
    }
    EXPECT_EQ(arrived, json(document));
  }
  const json secret = cluster_.find("secrets", "leaf-disease-1-secret");
  const std::string token = secret.at("stringData").at("token");
  EXPECT_EQ(token.size(), 64u);
  EXPECT_EQ(secret["metadata"]["ownerReferences"][0]["uid"], leading["metadata"]["uid"]);
  EXPECT_EQ(cluster_.validation_of("jobs"), "Strict");

  // Neither the output nor the local files contain it.
  EXPECT_THAT(target_.describe(job, record_), Not(HasSubstr(token)));
  for (const std::string& file : local_file_system().list_directory(folder_.path()).value()) {
    if (const auto text = local_file_system().read_file(folder_ / file); text.ok()) {
      EXPECT_THAT(text.value(), Not(HasSubstr(token))) << file;
    }
  }
  EXPECT_EQ(local_file_system().read_file(folder_ / "kubernetes.yaml").value(), to_yaml(manifests));
}

TEST_F(KubernetesTargetTest, ANameIsTakenOnce) {
  const JobSpec job = internal::leaf_disease_job();
  target_.submit(job, record_);
  const Error error = error_of([&] { target_.submit(job, record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("cannot create the job 'leaf-disease-1'"),
                                     HasSubstr("already exists")));
  EXPECT_THAT(error.hint(), HasSubstr("--name"));
  EXPECT_THAT(cluster_.names("jobs"), ElementsAre("leaf-disease-1-chief", "leaf-disease-1-worker"));
}

TEST_F(KubernetesTargetTest, AJobIsRecognisedByItsSubmission) {
  record_.submission = "s1";
  JobRecord lost = record_;
  target_.locate(internal::leaf_disease_job(), lost);
  EXPECT_FALSE(target_.recognise(lost));  // missing
  target_.submit(internal::leaf_disease_job(), record_);
  EXPECT_TRUE(target_.recognise(lost));
  EXPECT_EQ(lost, record_);
  lost.submission = "s2";
  EXPECT_FALSE(target_.recognise(lost));  // a foreign one
}

TEST_F(KubernetesTargetTest, AJobThatCannotBeCreatedWhollyIsRemoved) {
  cluster_.forbid("secrets");
  const Error error = error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
  EXPECT_THAT(error.message(), HasSubstr("secrets is forbidden"));
  EXPECT_THAT(error.hint(), HasSubstr("--namespace"));
  EXPECT_THAT(cluster_.names("jobs"), IsEmpty());
  EXPECT_THAT(cluster_.names("services"), IsEmpty());
}

// As when the submission is killed after the first document.
TEST_F(KubernetesTargetTest, APartOfAJobIsRemoved) {
  record_.submission = "s1";
  target_.submit(internal::leaf_disease_job(), record_);
  cluster_.lose("services", "leaf-disease-1");
  JobRecord lost = record_;
  lost.id.clear();
  lost.submitted = system_clock().wall_seconds();
  EXPECT_FALSE(target_.recognise(lost));
  EXPECT_THAT(cluster_.names("jobs"), SizeIs(2));  // the rest may still come
  lost.submitted = 0;
  EXPECT_FALSE(target_.recognise(lost));
  EXPECT_EQ(lost.id, "");
  EXPECT_THAT(cluster_.names("jobs"), IsEmpty());
}

// In a namespace of several people a name may be half taken, by a job with other roles.
TEST_F(KubernetesTargetTest, TheJobOfSomebodyElseStays) {
  JobSpec theirs = internal::leaf_disease_job();
  theirs.pools.erase(theirs.pools.begin());
  theirs.pools[0].count = 2;
  JobRecord their_record = record_;
  target_.submit(theirs, their_record);
  JobSpec ours = internal::leaf_disease_job();
  ours.pools.pop_back();
  ours.pools.push_back(ours.pools[0]);
  ours.pools.back().role = "ps";
  EXPECT_THROW(target_.submit(ours, record_), Error);
  EXPECT_THAT(cluster_.names("jobs"), ElementsAre("leaf-disease-1-worker"));
  EXPECT_THAT(cluster_.names("services"), ElementsAre("leaf-disease-1"));
  // A job of one task needs none of the names that are taken.
  ours.pools.pop_back();
  target_.submit(ours, record_);
  target_.cancel(record_);
  EXPECT_THAT(cluster_.names("jobs"), ElementsAre("leaf-disease-1-worker"));
  target_.cancel(their_record);
  EXPECT_THAT(cluster_.names("jobs"), IsEmpty());
  EXPECT_THAT(cluster_.names("secrets"), IsEmpty());
}

TEST_F(KubernetesTargetTest, TellsHowTasksAre) {
  JobSpec job = internal::leaf_disease_job();
  job.pools[1].count = 2;
  target_.submit(job, record_);
  EXPECT_EQ(target_.status(record_).state, JobState::kQueued);

  cluster_.put("pods", pod("chief", 0, "Running", kRunning));
  json waiting = pod("worker", 0, "Pending",
                     {{"waiting", {{"reason", "ErrImagePull"}, {"message", "no such image"}}}});
  cluster_.put("pods", waiting);
  JobStatus status = target_.status(record_);
  EXPECT_EQ(status.state, JobState::kRunning);
  EXPECT_EQ(status.detail, "worker-0 waits: ErrImagePull: no such image");
  ASSERT_EQ(status.tasks.size(), 2u);
  EXPECT_EQ(status.tasks[0].name, "chief-0");
  EXPECT_EQ(status.tasks[0].place, "leaf-disease-1-chief-0-1");
  EXPECT_EQ(status.tasks[1].state, JobState::kQueued);

  // A worker is killed and comes again; then the chief finds a mistake.
  json killed = waiting;
  killed["status"] = pod("worker", 0, "Failed", ended(137))["status"];
  cluster_.put("pods", killed);
  cluster_.put("pods", pod("worker", 0, "Running", kRunning, "2030-01-01T00:01:00Z"));
  status = target_.status(record_);
  EXPECT_EQ(status.restarts, 1);
  EXPECT_EQ(status.tasks[1].state, JobState::kRunning);
  cluster_.put("pods", pod("chief", 0, "Failed", ended(2), "2030-01-01T00:02:00Z"));
  end_job("chief", "Failed", "PodFailurePolicy", "exit code 2");
  status = target_.status(record_);
  EXPECT_EQ(status.state, JobState::kFailed);
  EXPECT_EQ(status.exit_code, 2);
  EXPECT_THAT(status.detail, HasSubstr("chief: PodFailurePolicy: exit code 2"));
}

TEST_F(KubernetesTargetTest, AFailedTasksLogSaysWhy) {
  target_.submit(internal::leaf_disease_job(), record_);
  const json chief = pod("chief", 0, "Failed", ended(2));
  cluster_.put("pods", chief);
  cluster_.set_log(chief["metadata"]["name"],
                   "step 1\nE 12:00:00 no data\n  hint: make some\nbye\n");
  end_job("chief", "Failed", "PodFailurePolicy", "exit code 2");
  const auto error = task_error_of(target_, record_, target_.status(record_));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->task, "chief-0");
  EXPECT_EQ(error->exit_code, 2);
  EXPECT_THAT(error->lines, ElementsAre("E 12:00:00 no data", "  hint: make some"));
}

// An image without the program, and a task that took more memory than it may.
TEST_F(KubernetesTargetTest, SaysWhatKubernetesSaysOfAFailure) {
  target_.submit(internal::leaf_disease_job(), record_);
  json state = ended(128);
  state["terminated"]["reason"] = "StartError";
  state["terminated"]["message"] = "exec: \"train\": executable file not found in $PATH";
  cluster_.put("pods", pod("chief", 0, "Failed", state));
  end_job("chief", "Failed", "PodFailurePolicy", "exit code 128");
  const JobStatus status = target_.status(record_);
  EXPECT_EQ(status.exit_code, 128);
  EXPECT_THAT(status.detail, HasSubstr("chief-0: StartError: exec: \"train\": executable file not "
                                       "found"));
}

TEST_F(KubernetesTargetTest, TheChiefsEndIsTheJobsButForAnEvaluator) {
  JobSpec job = internal::leaf_disease_job();
  job.pools.push_back(job.pools[1]);
  job.pools.back().role = "evaluator";
  target_.submit(job, record_);
  end_job("chief", "Complete");
  EXPECT_NE(target_.status(record_).state, JobState::kSucceeded);
  end_job("evaluator", "Complete");
  EXPECT_EQ(target_.status(record_).state, JobState::kSucceeded);
  EXPECT_EQ(target_.status(record_).exit_code, 0);
}

TEST_F(KubernetesTargetTest, LogsBearTheTasksName) {
  target_.submit(internal::leaf_disease_job(), record_);
  const json chief = pod("chief", 0, "Running", kRunning);
  const json worker = pod("worker", 0, "Failed", ended(2));
  cluster_.put("pods", chief);
  cluster_.put("pods", worker);
  cluster_.set_log(chief["metadata"]["name"], "step 1\nstep 2\n");
  cluster_.set_log(worker["metadata"]["name"], "E no data\n");
  std::vector<std::string> lines;
  const LogSink keep = [&](std::string_view line) { lines.emplace_back(line); };
  target_.logs(record_, {}, keep);
  EXPECT_THAT(lines, ElementsAre("[chief-0] step 1", "[chief-0] step 2", "[worker-0] E no data"));
  lines.clear();
  target_.logs(record_, {.task = "chief-0"}, keep);
  EXPECT_THAT(lines, ElementsAre("step 1", "step 2"));
  const Error error = error_of([&] { target_.logs(record_, {.task = "worker-7"}, keep); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), HasSubstr("it has 'chief-0', 'worker-0'"));

  // Following ends with the job.
  end_job("chief", "Complete");
  lines.clear();
  target_.logs(record_, {.follow = true}, keep);
  EXPECT_THAT(lines, testing::UnorderedElementsAre("[chief-0] step 1", "[chief-0] step 2",
                                                   "[worker-0] E no data"));
}

TEST_F(KubernetesTargetTest, CancellingLeavesNothingBehind) {
  target_.submit(internal::leaf_disease_job(), record_);
  target_.cancel(record_);
  for (const char* resource : {"jobs", "services", "secrets"}) {
    EXPECT_THAT(cluster_.names(resource), IsEmpty()) << resource;
  }
  EXPECT_EQ(target_.status(record_).state, JobState::kCancelled);
  EXPECT_TRUE(target_.status(record_).forgotten);  // so its name is free
  target_.cancel(record_);                         // again: nothing
}

// Its pods exist for as long as they save, and so do the pods of an evicted job.
TEST_F(KubernetesTargetTest, AJobThatIsBeingDeletedIsEnding) {
  target_.submit(internal::leaf_disease_job(), record_);
  json chief = pod("chief", 0, "Running", kRunning);
  cluster_.put("pods", pod("worker", 0, "Running", kRunning));
  chief["metadata"]["deletionTimestamp"] = "2030-01-01T00:02:00Z";
  cluster_.put("pods", chief);
  JobStatus status = target_.status(record_);
  EXPECT_EQ(status.state, JobState::kRunning);
  EXPECT_EQ(status.tasks.at(0).state, JobState::kEnding);
  json job = cluster_.find("jobs", "leaf-disease-1-chief");
  job["metadata"]["deletionTimestamp"] = "2030-01-01T00:02:00Z";
  cluster_.put("jobs", job);
  EXPECT_EQ(target_.status(record_).state, JobState::kEnding);
  // The Jobs are gone, and the pods not yet.
  target_.cancel(record_);
  cluster_.put("pods", chief);
  EXPECT_EQ(target_.status(record_).state, JobState::kEnding);
}

// A deleted job runs until it has saved, and an unknown one does not run.
TEST_F(KubernetesTargetTest, AJobIsGoneWhenItsPodsAre) {
  target_.submit(internal::leaf_disease_job(), record_);
  json chief = pod("chief", 0, "Running", kRunning);
  cluster_.put("pods", chief);
  cluster_.lose("jobs", "leaf-disease-1-chief");
  JobStatus status = target_.status(record_);
  EXPECT_EQ(status.state, JobState::kEnding);
  EXPECT_THAT(status.detail, HasSubstr("save"));
  chief["status"] = pod("chief", 0, "Failed", ended(143))["status"];
  cluster_.put("pods", chief);
  status = target_.status(record_);
  EXPECT_EQ(status.state, JobState::kUnknown);
  EXPECT_TRUE(status.forgotten);
}

// As after a kill while its submission was not answered.
TEST_F(KubernetesTargetTest, TrialsAreFoundByTheirMarks) {
  JobRecord search = record_;
  search.name = "tune";
  ManualClock clock({.sleep_advances = true});
  JobSpec job = internal::leaf_disease_job();
  job.name = "tune-1";
  job.pools.pop_back();
  TargetTrials(target_, search, clock).start(1, job);
  JobRecord trial = trial_records(search).at(1);
  trial.id.clear();
  const JobStore trials(search.folder + "/trials");
  trials.save(trial);
  EXPECT_EQ(trials_left(search, target_, system_clock()).running, std::vector<int>{1});
  EXPECT_EQ(trial_records(search).at(1).id, "tune-1");
  trials.save(trial);
  end_trials(search, target_, clock, std::chrono::seconds(5));
  EXPECT_THAT(cluster_.names("jobs"), IsEmpty());

  // An ended job of that name stays for days, and the trial begins anew under another name.
  TargetTrials(target_, search, clock).start(1, job);
  EXPECT_THAT(cluster_.names("jobs"), ElementsAre("tune-1-r2-chief"));
  json leading = cluster_.find("jobs", "tune-1-r2-chief");
  leading["status"]["conditions"] = {{{"type", "Failed"}, {"status", "True"}}};
  cluster_.put("jobs", leading);
  EXPECT_TRUE(trials_left(search, target_, system_clock()).running.empty());
  TargetTrials(target_, search, clock).start(1, job);
  EXPECT_THAT(cluster_.names("jobs"), SizeIs(2));
}

TEST_F(KubernetesTargetTest, KubeflowsKindsAreOneDocument) {
  for (const auto& [kind, resource] : {std::pair{KubernetesKind::kTfJob, "tfjobs"},
                                       {KubernetesKind::kPyTorchJob, "pytorchjobs"}}) {
    KubernetesTarget target({.documents = {.kind = kind}, .tls = true});
    JobRecord record = record_;
    target.submit(internal::leaf_disease_job(), record);
    EXPECT_THAT(cluster_.names(resource), ElementsAre("leaf-disease-1"));
    EXPECT_THAT(json(cluster_.find("secrets", "leaf-disease-1-secret")["stringData"]["key.pem"]),
                HasSubstr("PRIVATE KEY"));
    json object = cluster_.find(resource, "leaf-disease-1");
    object["status"]["conditions"] = {{{"type", "Created"}, {"status", "True"}},
                                      {{"type", "Running"}, {"status", "False"}},
                                      {{"type", "Succeeded"}, {"status", "True"}}};
    cluster_.put(resource, object);
    EXPECT_EQ(target.status(record).state, JobState::kSucceeded);
    object["status"] = json::object();
    cluster_.put(resource, object);
    target.cancel(record);
    EXPECT_THAT(cluster_.names(resource), IsEmpty());
    EXPECT_THAT(cluster_.names("secrets"), IsEmpty());
  }
}

TEST_F(KubernetesTargetTest, WithoutItsOperatorAKindIsRefused) {
  const internal::StandInCluster bare(/*kubeflow=*/false);
  bare.write_configuration(folder_ / "config");
  KubernetesTarget target({.documents = {.kind = KubernetesKind::kTfJob}});
  const Error error = error_of([&] { target.submit(internal::leaf_disease_job(), record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.hint(), HasSubstr("--kind=job"));
}

TEST_F(KubernetesTargetTest, AClusterThatIsNotThereMayComeBack) {
  {
    const internal::StandInCluster gone;
    gone.write_configuration(folder_ / "config");
  }
  const Error error = error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.what();
  // Nothing was sent.
  EXPECT_THROW(
      {
        try {
          target_.submit(internal::leaf_disease_job(), record_);
        } catch (const UnclearSubmission&) {
          ADD_FAILURE() << "it is clear";
          throw;
        }
      },
      Error);
}

// A kubectl that gets no answer for the first document, and afterwards reports the state that a
// test has set.
class LostAnswer : public ::testing::Test {
 protected:
  LostAnswer() {
    const std::string dir = folder_.path();
    write("kubectl", "#!/bin/sh\ncd '" + dir + R"('
case "$*" in
*create*)
  for word; do case $word in --filename=*) file=${word#*=};; esac; done
  if [ -e created ]; then cat "$file" > others; exit 0; fi
  cp "$file" created
  echo 'error: Post "https://cluster": net/http: TLS handshake: i/o timeout' >&2; exit 1;;
*get*) cat shown 2>/dev/null; exit 0;;
esac
)");
    chmod((folder_ / "kubectl").c_str(), 0700);
  }
  void write(const std::string& name, const std::string& text) {
    local_file_system().write_atomically(folder_ / name, std::string_view(text)).value();
  }
  json read(const std::string& name) {
    return json::parse(local_file_system().read_file(folder_ / name).value());
  }
  // Lets the cluster have the document that was sent.
  void arrive(const std::string& submission) {
    json document = read("created");
    document["metadata"]["namespace"] = "lab";
    document["metadata"]["uid"] = "uid-1";
    document["metadata"]["annotations"]["muster/submission"] = submission;
    write("shown", document.dump());
  }

  TempDirectory folder_;
  KubernetesTarget target_{{.kubectl = folder_ / "kubectl"}};
  JobRecord record_{
      .name = "leaf", .target = "kubernetes", .folder = folder_.path(), .submission = "s1"};
};

TEST_F(LostAnswer, TheSubmissionIsUnclearUntilItIsRecognised) {
  try {
    target_.submit(internal::leaf_disease_job(), record_);
    ADD_FAILURE() << "no error";
  } catch (const UnclearSubmission& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.hint(), HasSubstr("muster jobs status leaf"));
  }
  EXPECT_EQ(read("created")["metadata"]["annotations"]["muster/submission"], "s1");
  record_.id.clear();
  EXPECT_FALSE(target_.recognise(record_));
  // A foreign job of the same name.
  arrive("s2");
  EXPECT_FALSE(target_.recognise(record_));
  EXPECT_EQ(record_.id, "");
  arrive("s1");
  EXPECT_TRUE(target_.recognise(record_));
  EXPECT_EQ(record_.id, "leaf");
  EXPECT_EQ(record_.details.at("namespace"), "lab");
}

TEST_F(LostAnswer, AConnectionThatBreaksIsNoRefusal) {
  for (const char* end :
       {"echo 'error: Post \"https://cluster\": EOF' >&2; exit 1", "kill -9 $$",
        "echo 'Error from server (Timeout): etcdserver: request timed out' >&2; exit 1"}) {
    write("kubectl", std::string("#!/bin/sh\ncase \"$*\" in *create*) ") + end + ";; esac\n");
    chmod((folder_ / "kubectl").c_str(), 0700);
    JobRecord record = record_;
    EXPECT_THROW(target_.submit(internal::leaf_disease_job(), record), UnclearSubmission) << end;
  }
}

TEST_F(LostAnswer, ASubmissionThatArrivedInPartIsCompleted) {
  JobSpec job = internal::leaf_disease_job();
  JobRecord first = record_;
  EXPECT_THROW(target_.submit(job, first), UnclearSubmission);
  arrive("s1");
  std::filesystem::remove(folder_ / "created");
  // Parts of this submission exist if the second answer is lost, but not if the first one is.
  write("kubectl", std::string("#!/bin/sh\ncd '") + folder_.path() + R"('
case "$*" in
*create*--output=json*) touch asked; echo 'error: context deadline exceeded' >&2; exit 1;;
*create*) for word; do case $word in --filename=*) cp "${word#*=}" others;; esac; done;;
*get*) if [ -e asked ]; then cat shown; fi;;
esac
)");
  chmod((folder_ / "kubectl").c_str(), 0700);
  target_.submit(job, record_);
  EXPECT_EQ(record_.details.at("namespace"), "lab");
  EXPECT_THAT(local_file_system().read_file(folder_ / "others").value(),
              AllOf(HasSubstr("\"uid\":\"uid-1\""), HasSubstr("\"kind\":\"Secret\"")));
}

// An existing document either belongs to this submission, or blocks its name.
TEST_F(LostAnswer, ExistingDocumentsAreNotCreatedAgain) {
  EXPECT_THROW(target_.submit(internal::leaf_disease_job(), record_), UnclearSubmission);
  arrive("s2");
  const Error taken = error_of([&] { target_.submit(internal::leaf_disease_job(), record_); });
  EXPECT_EQ(taken.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(taken.hint(), HasSubstr("--name"));
  arrive("s1");
  target_.submit(internal::leaf_disease_job(), record_);
  EXPECT_EQ(record_.details.at("namespace"), "lab");
}

// Cut, another form, a proxy's page: always an Error that names the tool.
TEST(KubernetesTarget, AnswersOfAnotherFormAreErrors) {
  const TempDirectory folder;
  const std::string kubectl = folder / "kubectl";
  local_file_system()
      .write_atomically(kubectl, "#!/bin/sh\ncase \"$*\" in *create*|*--selector*) cat '" +
                                     folder / "answer" + "';; esac\n")
      .value();
  chmod(kubectl.c_str(), 0700);
  KubernetesTarget target({.kubectl = kubectl});
  for (const char* answer :
       {"", "{", "[]", "3", "{\"items\": {}}", "<html>busy</html>",
        "{\"metadata\": {\"namespace\": 3}}", "{\"metadata\": {\"namespace\": \"a\"}}"}) {
    local_file_system().write_atomically(folder / "answer", std::string_view(answer)).value();
    JobRecord record{.name = "a", .folder = folder.path()};
    const Error made = error_of([&] { target.submit(internal::leaf_disease_job(), record); });
    EXPECT_THAT(made.message(), HasSubstr("kubectl create answered ")) << answer;
    record.id = "a";
    const Error asked = error_of([&] { target.status(record); });
    EXPECT_EQ(asked.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(asked.message(), HasSubstr("pods --selector=")) << answer;
  }
  // Any part of a pod may be missing.
  for (const char* items :
       {"[]", "[1, null, {}]", R"([{"kind": "Pod"}, {"kind": "Pod", "status": 3}])",
        R"([{"kind": "Job", "status": {"conditions": [1, {}], "active": "x"}},
            {"kind": "Pod", "metadata": [], "status": {"phase": 1, "containerStatuses":
             [{"state": {"terminated": {"exitCode": "x"}}}, 4]}}])"}) {
    local_file_system()
        .write_atomically(folder / "answer", "{\"items\": " + std::string(items) + "}")
        .value();
    JobRecord record{.name = "a", .folder = folder.path()};
    record.details["kind"] = "jobs.batch";
    EXPECT_NO_THROW(target.status(record)) << items;
  }
}

TEST(KubernetesTarget, WithoutKubectlItSaysSo) {
  const TempDirectory folder;
  KubernetesTarget target({.kubectl = folder / "kubectl"});
  JobRecord record{.name = "a", .folder = folder.path()};
  const Error error = error_of([&] { target.submit(internal::leaf_disease_job(), record); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.hint(), HasSubstr("install kubectl"));
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
