// read_job_config() on anything: it ends, and returns a job, or an InvalidArgument that has the
// name of the file. A job that was read can be written and read again.
#include "muster/jobs/config_writer.h"
#include "muster/jobs/job_config.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

static std::string many(const std::string& piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

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

// Aliases that represent more and more, and texts that take the most memory for their letters.
std::vector<std::string> attacks() {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    laughs += name + ": &" + name + " [" + many(before + ", ", 8) + before + "]\n";
  }
  return {laughs,
          "a: [" + many("a,", 100'000) + "]\n",
          many("[", 100'000),
          many("- ", 100'000),
          "a: " + many("{b: ", 100'000),
          many("? ", 100'000)};
}

std::vector<std::string> seed_folders() { return {}; }

namespace {

// The YAML library's tree of the 20,000 keys and values that a configuration may have.
constexpr uint64_t kConfigFixed = uint64_t{16} << 20;

void check(const std::string& text) {
  jobs::JobSpec job;
  try {
    job = metered(kConfigFixed + parse_memory_limit(text.size()),
                  [&] { return jobs::read_job_config(text, "input").job; });
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
