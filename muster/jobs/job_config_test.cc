#include "muster/jobs/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/base/error_of.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

JobSpec read(const std::string& text) { return read_job_config(text, "job.yaml").job; }

// As the tutorial prints it.
constexpr const char* kTutorial = R"(trainingInput:
  scaleTier: CUSTOM
  # Configure a master worker with 1 T4 GPU
  masterType: n1-standard-8
  masterConfig:
    acceleratorConfig:
      count: 1
      type: NVIDIA_TESLA_T4
    imageUri: gcr.io/project/leaves:latest
  # Configure 1 worker, each with a T4 GPU
  workerCount: 1
  workerType: n1-standard-8
  workerConfig:
    acceleratorConfig:
      count: 1
      type: NVIDIA_TESLA_T4
  useChiefInTfConfig: True
)";

TEST(JobConfigTest, TheTutorialsConfiguration) {
  const JobConfig config = read_job_config(kTutorial, "config.yaml");
  const JobSpec& job = config.job;
  ASSERT_EQ(job.pools.size(), 2u);
  const Pool& chief = *job.pool("chief");
  EXPECT_EQ(chief.count, 1);
  EXPECT_EQ(chief.machine_type, "n1-standard-8");
  EXPECT_EQ(chief.accelerator, (Accelerator{"NVIDIA_TESLA_T4", 1}));
  EXPECT_EQ(chief.image, "gcr.io/project/leaves:latest");
  const Pool& worker = *job.pool("worker");
  EXPECT_EQ(worker.count, 1);
  EXPECT_EQ(worker.image, chief.image);
  EXPECT_TRUE(job.chief_in_tf_config);
  EXPECT_THAT(config.notes, IsEmpty());
}

// The same job however it is written.
TEST(JobConfigTest, SnakeCaseJsonAndTextsAreTheSame) {
  const JobSpec wanted = read(kTutorial);
  EXPECT_EQ(read(R"(scale_tier: custom
master_type: n1-standard-8
master_config:
  image_uri: gcr.io/project/leaves:latest
  accelerator_config: {count: '1', type: NVIDIA_TESLA_T4}
worker_count: "1"
worker_type: n1-standard-8
worker_config: {accelerator_config: {count: 1, type: NVIDIA_TESLA_T4}}
use_chief_in_tf_config: yes
)"),
            wanted);
  EXPECT_EQ(read("{\n\t\"trainingInput\": {\"scaleTier\": \"CUSTOM\", \"masterType\": "
                 "\"n1-standard-8\",\r\n\t\t\"masterConfig\": {\"imageUri\": "
                 "\"gcr.io\\/project\\/leaves:l\\u0061test\", \"acceleratorConfig\": {\"count\": "
                 "\"1\", \"type\": \"NVIDIA_TESLA_T4\"}}, \"workerCount\": \"1\", \"workerType\": "
                 "\"n1-standard-8\", \"workerConfig\": {\"acceleratorConfig\": {\"count\": 1, "
                 "\"type\": \"NVIDIA_TESLA_T4\"}}, \"useChiefInTfConfig\": true}}"),
            wanted);
}

TEST(JobConfigTest, JsonEscapesBeyondSixteenBits) {
  EXPECT_THAT(read(R"({"scaleTier": "BASIC", "args": ["\ud83d\ude00 \\ud83d\\ude00 \"x\""]})").args,
              ElementsAre("\U0001F600 \\ud83d\\ude00 \"x\""));
}

TEST(JobConfigTest, EverythingElseOfAiPlatform) {
  const JobConfig config = read_job_config(R"(
jobId: leaves_7
labels: {team: botany, run: 7}
state: RUNNING
trainingInput:
  scaleTier: CUSTOM
  masterType: a
  parameterServerType: b
  parameterServerCount: 2
  evaluatorType: c
  evaluatorCount: 1
  evaluatorConfig: {containerArgs: [--eval, 7]}
  masterConfig: {imageUri: image, containerCommand: [train, -v], diskConfig: {bootDiskType: pd-ssd, bootDiskSizeGb: 200}}
  args: [--epochs, 5, --name=x y]
  region: europe-west4
  jobDir: gs://bucket/leaves
  runtimeVersion: "2.4"
  pythonModule: trainer.task
  scheduling: {maxRunningTime: 7200s, maxWaitTime: '3600s', priority: 5}
)",
                                           "job.yaml");
  const JobSpec& job = config.job;
  EXPECT_EQ(job.name, "leaves_7");
  EXPECT_THAT(job.labels, ElementsAre(Pair("team", "botany"), Pair("run", "7")));
  EXPECT_EQ(job.pool("ps")->count, 2);
  EXPECT_THAT(job.pool("evaluator")->args, ElementsAre("--eval", "7"));
  EXPECT_THAT(job.pool("chief")->command, ElementsAre("train", "-v"));
  EXPECT_EQ(job.pool("chief")->disk_gigabytes, 200);
  EXPECT_THAT(job.args, ElementsAre("--epochs", "5", "--name=x y"));
  EXPECT_EQ(job.job_dir, "gs://bucket/leaves");
  EXPECT_EQ(job.scheduling.max_running_seconds, 7200);
  EXPECT_TRUE(job.chief_in_tf_config);  // since 2.1
  EXPECT_THAT(config.notes, ElementsAre(AllOf(HasSubstr("pythonModule"), HasSubstr("Python"))));
}

TEST(JobConfigTest, TiersAreCounts) {
  const JobSpec standard = read("scaleTier: STANDARD_1");
  EXPECT_EQ(standard.pool("chief")->count, 1);
  EXPECT_EQ(standard.pool("worker")->count, 4);
  EXPECT_EQ(standard.pool("ps")->count, 3);
  EXPECT_EQ(read("scaleTier: PREMIUM_1").task_count(), 31);
  EXPECT_EQ(read("scaleTier: BASIC").task_count(), 1);
  EXPECT_EQ(read("scaleTier: BASIC_GPU").pool("chief")->accelerator.count, 1);
  EXPECT_FALSE(read("scaleTier: BASIC").chief_in_tf_config);
  EXPECT_FALSE(read("scaleTier: BASIC\nruntimeVersion: '1.15'").chief_in_tf_config);
}

// Google's services have these; others have others, so that it is not an error.
TEST(JobConfigTest, AnAcceleratorThatIsMisspelt) {
  const auto notes = [](const std::string& type) {
    return read_job_config(
               "scaleTier: CUSTOM\nmasterType: a\nmasterConfig: {acceleratorConfig: "
               "{count: 1, type: " +
                   type + "}}\n",
               "job.yaml")
        .notes;
  };
  for (const char* type : {"T44", "NVIDIA_TESLA_T44", "nvidia-tesla-t44"}) {
    EXPECT_THAT(notes(type), ElementsAre(AllOf(HasSubstr("masterConfig.acceleratorConfig.type"),
                                               HasSubstr("did you mean NVIDIA_TESLA_T4?"))))
        << type;
  }
  for (const char* type : {"NVIDIA_TESLA_T4", "T4", "nvidia-l4", "NVIDIA_TESLA_K80", "AMD_MI300"})
    EXPECT_THAT(notes(type), IsEmpty()) << type;
}

constexpr const char* kVertexBody = R"(workerPoolSpecs:
- machineSpec: {machineType: n1-standard-8, acceleratorType: NVIDIA_TESLA_T4, acceleratorCount: 1}
  replicaCount: '1'
  diskSpec: {bootDiskType: pd-ssd, bootDiskSizeGb: 100}
  containerSpec:
    imageUri: image
    command: [train]
    args: [--epochs=5]
    env: [{name: A, value: 1}]
- machine_spec: {machine_type: n1-standard-8}
  replica_count: 2
  container_spec: {image_uri: image}
- {}
- machineSpec: {machineType: e2-standard-4}
  replicaCount: 1
  containerSpec: {imageUri: image}
scheduling: {timeout: 3600s, restartJobOnWorkerRestart: true, disableRetries: true}
serviceAccount: me@example
baseOutputDirectory: {outputUriPrefix: gs://bucket/x}
)";

TEST(JobConfigTest, VertexAi) {
  const JobSpec job = read(kVertexBody);
  EXPECT_EQ(job.task_count(), 4);
  const Pool& chief = *job.pool("chief");
  EXPECT_EQ(chief.accelerator, (Accelerator{"NVIDIA_TESLA_T4", 1}));
  EXPECT_THAT(chief.environment, ElementsAre(Pair("A", "1")));
  EXPECT_THAT(chief.args, ElementsAre("--epochs=5"));
  EXPECT_EQ(job.pool("worker")->count, 2);
  EXPECT_EQ(job.pool("ps"), nullptr);
  EXPECT_EQ(job.pool("evaluator")->count, 1);
  EXPECT_EQ(job.job_dir, "gs://bucket/x");
  EXPECT_EQ(job.scheduling.max_running_seconds, 3600);
  EXPECT_TRUE(job.scheduling.restart_on_worker_restart);
  EXPECT_EQ(job.scheduling.restarts, 0);
  EXPECT_TRUE(job.chief_in_tf_config);

  std::string indented = "displayName: leaves\njobSpec:\n";
  for (std::string_view text = kVertexBody; !text.empty();) {
    const size_t end = text.find('\n');
    indented += "  " + std::string(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  JobSpec whole = read(indented);
  EXPECT_EQ(whole.name, "leaves");
  whole.name.clear();
  EXPECT_EQ(whole, job);
}

TEST(JobConfigTest, ReductionServersAreLeftOut) {
  const JobConfig config = read_job_config(R"(workerPoolSpecs:
- {machineSpec: {machineType: a}, replicaCount: 1, containerSpec: {imageUri: x}}
- {machineSpec: {machineType: a}, replicaCount: 1, containerSpec: {imageUri: x}}
- machineSpec: {machineType: a}
  replicaCount: 4
  containerSpec: {imageUri: us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest}
)",
                                           "job.yaml");
  EXPECT_EQ(config.job.pool("ps"), nullptr);
  EXPECT_THAT(config.notes, ElementsAre(HasSubstr("Reduction Server")));
}

TEST(JobConfigTest, SearchesOfBothServicesAreTheSame) {
  const JobSpec old = read(R"(trainingInput:
  scaleTier: BASIC
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 30
    maxParallelTrials: 3
    maxFailedTrials: 2
    enableTrialEarlyStopping: true
    algorithm: RANDOM_SEARCH
    params:
    - {parameterName: lr, type: DOUBLE, minValue: 1e-4, maxValue: 0.1, scaleType: UNIT_LOG_SCALE}
    - {parameterName: units, type: INTEGER, minValue: '16', maxValue: 64}
    - {parameterName: optimizer, type: CATEGORICAL, categoricalValues: [adam, sgd]}
    - {parameterName: batch, type: DISCRETE, discreteValues: [32, 64]}
)");
  ASSERT_TRUE(old.search);
  EXPECT_FALSE(old.search->maximize);
  EXPECT_EQ(old.search->max_trials, 30);
  ASSERT_EQ(old.search->parameters.size(), 4u);
  EXPECT_DOUBLE_EQ(old.search->parameters[0].min_value, 1e-4);
  EXPECT_EQ(old.search->parameters[0].scale, HyperParameter::Scale::kLog);
  EXPECT_THAT(old.search->parameters[2].categories, ElementsAre("adam", "sgd"));

  const JobSpec vertex = read(R"(displayName: tune
maxTrialCount: 30
parallelTrialCount: '3'
maxFailedTrialCount: 2
studySpec:
  metrics: [{metricId: loss, goal: MINIMIZE}]
  algorithm: RANDOM_SEARCH
  medianAutomatedStoppingSpec: {useElapsedDuration: true}
  parameters:
  - {parameterId: lr, doubleValueSpec: {minValue: 0.0001, maxValue: 0.1}, scaleType: UNIT_LOG_SCALE}
  - {parameterId: units, integerValueSpec: {minValue: '16', maxValue: '64'}}
  - {parameterId: optimizer, categoricalValueSpec: {values: [adam, sgd]}}
  - {parameterId: batch, discreteValueSpec: {values: [32, 64]}}
trialJobSpec:
  workerPoolSpecs:
  - {machineSpec: {machineType: a}, replicaCount: 1, containerSpec: {imageUri: x}}
)");
  EXPECT_EQ(vertex.search, old.search);
}

}  // namespace
}  // namespace muster::inline v0_1::jobs
