#include "muster/jobs/task_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/jobs/config_writer.h"
#include "muster/jobs/job_config.h"
#include "muster/jobs/job_spec_json.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::ElementsAre;

JobSpec whole_job() {
  JobSpec job;
  job.name = "leaf-1";
  job.program = {"/bin/train", "-v"};
  job.args = {"--epochs=5", "x y"};
  job.pools = {
      {.role = "chief",
       .count = 1,
       .machine_type = "n1-standard-8",
       .accelerator = {"NVIDIA_TESLA_T4", 2},
       .image = "image",
       .environment = {{"A", "b"}}},
      {.role = "worker", .count = 2, .machine_type = "n1-standard-4", .image = "image"},
      {.role = "ps",
       .count = 1,
       .machine_type = "e2-standard-4",
       .image = "image",
       .args = {"--s"}},
      {.role = "evaluator", .count = 1, .machine_type = "e2-standard-4", .image = "image"}};
  job.job_dir = "gs://bucket/leaf";
  job.labels = {{"team", "a"}};
  job.scheduling = {.max_running_seconds = 60, .restarts = 1};
  job.trial = "7";
  job.search = HyperParameterSearch{.parameters = {{.name = "x", .max_value = 1}}};
  return job;
}
const std::vector<std::string> kAddresses = {"a:1", "b:1", "b:2", "c:1", ""};

TEST(TaskStartTest, WordsAreProgramArgumentsAndJobDir) {
  JobSpec job = whole_job();
  EXPECT_THAT(
      words_of(job, *job.pool("chief")),
      ElementsAre("/bin/train", "-v", "--epochs=5", "x y", "--job-dir", "gs://bucket/leaf"));
  EXPECT_THAT(words_of(job, *job.pool("ps")),
              ElementsAre("/bin/train", "-v", "--s", "--job-dir", "gs://bucket/leaf"));
  // A --job_dir that the user wrote stays.
  job.args = {"--job_dir=here"};
  EXPECT_THAT(words_of(job, *job.pool("chief")), ElementsAre("/bin/train", "-v", "--job_dir=here"));
  job.program.clear();
  job.pools[0].command = {"other"};
  EXPECT_THAT(words_of(job, job.pools[0]), ElementsAre("other", "--job_dir=here"));
}

// The resolver reads the TF_CONFIG of a task as the task that it is for.
TEST(TaskStartTest, EveryTaskFindsItselfInItsTfConfig) {
  JobSpec job = whole_job();
  for (const bool chief : {true, false}) {
    job.chief_in_tf_config = chief;
    for (const JobTask& task : tasks_of(job)) {
      const std::string text = tf_config_of(job, task, kAddresses);
      const auto config = nlohmann::json::parse(text);
      EXPECT_TRUE(config["cluster"].contains(chief ? "chief" : "master"));
      EXPECT_FALSE(config["cluster"].contains("evaluator"));
      EXPECT_EQ(config["task"]["trial"], "7");
      EXPECT_EQ(config["environment"], "cloud");
      EXPECT_EQ(nlohmann::json::parse(config["job"].get<std::string>())["worker_count"], "2");
      const cluster::ResolvedCluster found =
          cluster::resolve_cluster(cluster::parse_tf_config(text));
      EXPECT_EQ(found.task, (cluster::Task{task.role, task.index}));
      if (task.role == "evaluator") continue;
      EXPECT_THAT(found.addresses, ElementsAre("a:1", "b:1", "b:2"));
      EXPECT_THAT(found.ps_addresses, ElementsAre("c:1"));
    }
  }
}

TEST(TaskStartTest, VariablesOfThePoolWin) {
  JobSpec job = whole_job();
  job.pools[0].environment.emplace_back("CLOUD_ML_JOB_ID", "mine");
  using ::testing::Pair;
  EXPECT_THAT(
      variables_of(job, {"chief", 0}),
      ElementsAre(Pair("A", "b"), Pair("CLOUD_ML_JOB_ID", "mine"), Pair("CLOUD_ML_TRIAL_ID", "7")));
}

TEST(TaskStartTest, AJobIsTheSameAsJsonAndBack) {
  EXPECT_EQ(job_spec_from_json(to_json_text(whole_job()), "job.json"), whole_job());
  EXPECT_EQ(job_spec_from_json(to_json_text({}), "job.json"), JobSpec{});
  EXPECT_THROW(job_spec_from_json("{}", "job.json"), Error);
}

TEST(TaskStartTest, AJobIsTheSameAsAConfigurationAndBack) {
  JobSpec job = whole_job();
  job.pools[0].environment.clear();
  const JobSpec read = read_job_config(to_ai_platform_yaml(job), "job.yaml").job;
  EXPECT_EQ(read.pools, job.pools);
  EXPECT_EQ(read.args, job.args);
  EXPECT_EQ(read.job_dir, job.job_dir);
  EXPECT_EQ(read.chief_in_tf_config, job.chief_in_tf_config);
  EXPECT_EQ(read.scheduling.max_running_seconds, 60);
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
