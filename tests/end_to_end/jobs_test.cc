// The tutorial's configuration submitted to this machine and to a real Slurm: the trained model has
// the same bits as the same tasks under `muster run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "muster/base/temp_directory.h"
#include "tests/end_to_end/program.h"
#include "tests/support/slurm_cluster.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int kSteps = 30;
// As docs/jobs.md prints it.
constexpr const char* kConfig = R"(trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-8
  masterConfig:
    acceleratorConfig:
      count: 1
      type: NVIDIA_TESLA_T4
    imageUri: gcr.io/PROJECT/leaf:latest
  workerType: n1-standard-8
  workerConfig:
    acceleratorConfig:
      count: 1
      type: NVIDIA_TESLA_T4
  workerCount: 1
  useChiefInTfConfig: true
)";

class JobsTest : public ::testing::Test {
 protected:
  JobsTest() {
    write_file(directory_ / "config.yaml", kConfig);
    variables_ = {{"XDG_STATE_HOME", directory_ / "state"}};
  }
  Words submit(const std::string& name, const Words& flags) const {
    Words words = {binary("muster"), "submit", "--config=" + directory_ / "config.yaml",
                   "--name=" + name, "--job-dir=" + directory_ / name};
    words.insert(words.end(), flags.begin(), flags.end());
    for (const std::string& word : {binary("mnist"), std::string("--")}) words.push_back(word);
    for (const std::string& word : arguments()) words.push_back(word);
    return words;
  }
  static Words arguments() {
    return {"--data_dir=" + digits(), "--batch_size=32", "--save_checkpoints_steps=10",
            "--max_steps=" + std::to_string(kSteps)};
  }
  // The checkpoint that the same tasks leave under `muster run`.
  std::string expected() const {
    Words program = {binary("mnist"), "--model_dir=" + directory_ / "expected"};
    for (const std::string& word : arguments()) program.push_back(word);
    const Ran ran = run(muster_run({"--chief", "--workers=1"}, program));
    EXPECT_EQ(ran.code, 0) << ran.output;
    return checkpoint_bytes(directory_ / "expected", kSteps);
  }
  nlohmann::json status(const std::string& name) const {
    return nlohmann::json::parse(
        run({binary("muster"), "jobs", "status", "--json", name}, variables_).output, nullptr,
        false);
  }
  // Waits, at most two minutes, until the job's status has this value.
  template <typename T>
  bool comes(const std::string& name, const char* key, const T& value) const {
    const auto end = std::chrono::steady_clock::now() + 120s;
    while (status(name).value(key, T()) != value) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(100ms);
    }
    return true;
  }

  TempDirectory directory_;
  Variables variables_;
};

TEST_F(JobsTest, TheTutorialsConfigurationTrainsOnThisMachine) {
  Program job(submit("leaf", {"--wait"}), variables_);
  EXPECT_EQ(job.wait(120s), 0) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("1 NVIDIA_TESLA_T4 each is not asked for here"));
  EXPECT_EQ(checkpoint_bytes(directory_ / "leaf", kSteps), expected());
}

TEST_F(JobsTest, TheTutorialsConfigurationTrainsOnSlurmAndContinuesAfterARequeue) {
  if (const std::string why = SlurmCluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  const SlurmCluster slurm;
  for (const auto& [name, value] : slurm.environment()) variables_[name] = value;
  const Ran submitted = run(submit("leaf", {"--to=slurm", "--no-accelerators"}), variables_);
  ASSERT_EQ(submitted.code, 0) << submitted.output;
  Program log({binary("muster"), "jobs", "logs", "--follow", "leaf"}, variables_);
  log.wait_for("step 10", 120s);
  const std::string id = status("leaf")["id"];
  EXPECT_EQ(run({"scontrol", "requeue", id}, variables_).code, 0);
  ASSERT_TRUE(comes("leaf", "restarts", 1));
  ASSERT_TRUE(comes("leaf", "state", std::string("queued")));
  // Slurm holds a requeued job for two minutes, and if it is still completing the first start it
  // decides so after it was released.
  const auto end = std::chrono::steady_clock::now() + 120s;
  while (log.running() && std::chrono::steady_clock::now() < end) {
    run({"scontrol", "update", "job=" + id, "StartTime=now"}, variables_);
    std::this_thread::sleep_for(500ms);
  }
  EXPECT_EQ(log.wait(1s), 0) << log.output();
  EXPECT_EQ(checkpoint_bytes(directory_ / "leaf", kSteps), expected());
}

}  // namespace
}  // namespace muster::testing
