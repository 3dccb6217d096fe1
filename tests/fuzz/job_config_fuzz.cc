// read_job_config() on anything: it ends, and what it reads is a job, or an InvalidArgument that
// has the name of the file. A job that was read can be written and read again.
#include "muster/jobs/config_writer.h"
#include "muster/jobs/job_config.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  return {
      "trainingInput:\n  scaleTier: CUSTOM\n  masterType: a\n  masterConfig: {imageUri: i, "
      "acceleratorConfig: {count: '1', type: T4}}\n  workerType: b\n  workerCount: 2\n"
      "  useChiefInTfConfig: true\n  args: [--x, \"y z\"]\n  scheduling: {maxRunningTime: 60s}\n",
      "{\"scaleTier\": \"STANDARD_1\", \"hyperparameters\": {\"goal\": \"MAXIMIZE\", \"params\": "
      "[{\"parameterName\": \"x\", \"type\": \"DOUBLE\", \"minValue\": 1e-3, \"maxValue\": 1, "
      "\"scaleType\": \"UNIT_LOG_SCALE\"}]}, \"args\": [\"\\ud83d\\ude00\\u00e9\"]}",
      "workerPoolSpecs:\n- machineSpec: {machineType: a, acceleratorType: T4, acceleratorCount: "
      "1}\n"
      "  replicaCount: 1\n  containerSpec: &c {imageUri: i, args: [x], env: [{name: A, value: "
      "b}]}\n"
      "- {machine_spec: {machine_type: a}, replica_count: '2', container_spec: *c}\n",
      "displayName: d\nmaxTrialCount: 3\nstudySpec:\n  metrics: [{metricId: m, goal: MINIMIZE}]\n"
      "  parameters:\n  - {parameterId: n, integerValueSpec: {minValue: 1, maxValue: 9}}\n"
      "trialJobSpec: {workerPoolSpecs: [{machineSpec: {machineType: a}, containerSpec: {imageUri: "
      "i}}]}\n",
      "apiVersion: v1\nkind: Job\n---\n&a [*a]\n"};
}

std::vector<std::string> seed_folders() { return {}; }

namespace {

void check(const std::string& text) {
  jobs::JobSpec job;
  try {
    job = jobs::read_job_config(text, "input").job;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInvalidArgument, "what is wrong is the text");
    require(error.message().find("input") != std::string::npos, "an error names the file");
    return;
  }
  require(job.pool("chief") != nullptr, "a job has a first task");
  // AI Platform's tasks run from images all of them, or none.
  for (const jobs::Pool& pool : job.pools) {
    if (pool.image.empty() != job.pools.front().image.empty()) return;
    if (pool.image.empty() && !pool.command.empty()) return;
  }
  const jobs::JobSpec again = jobs::read_job_config(jobs::to_ai_platform_yaml(job), "again").job;
  require(again.task_count() == job.task_count(), "what is written is read again");
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  muster::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
