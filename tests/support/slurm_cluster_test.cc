#include "tests/support/slurm_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using ::testing::UnorderedElementsAre;

// Runs a command of the cluster's user to its end.
int run_in(const SlurmCluster& slurm, const std::vector<std::string>& command) {
  launch::ChildProcess child(
      {.argv = command, .environment = {slurm.environment().begin(), slurm.environment().end()}});
  const auto status = child.wait_for(60s);
  if (!status) return -1;
  return status->signal != 0 ? -status->signal : status->code;
}

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istream_iterator<std::string>(file), {}};
}

TEST(SlurmCluster, RunsTasksOnItsNodesAndPassesOnHowTheyEnd) {
  if (const std::string why = SlurmCluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  const SlurmCluster slurm({.nodes = 2});
  const std::string out = slurm.directory() + "/tasks";
  const std::string say = "echo $SLURM_PROCID:$SLURMD_NODENAME:$SLURM_STEP_NODELIST >> " + out;
  EXPECT_EQ(run_in(slurm, {"srun", "-N", "2", "-n", "3", "sh", "-c", say}), 0) << slurm.logs();
  EXPECT_THAT(words_of(out), UnorderedElementsAre("0:node01:node[01-02]", "1:node01:node[01-02]",
                                                  "2:node02:node[01-02]"));
  EXPECT_EQ(run_in(slurm, {"srun", "sh", "-c", "exit 138"}), 138);
}

TEST(SlurmCluster, LeavesNothingBehind) {
  if (const std::string why = SlurmCluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  std::string directory;
  std::vector<std::string> task;
  {
    const SlurmCluster slurm;
    directory = slurm.directory();
    const std::string script = directory + "/job.sh";
    std::ofstream(script) << "#!/bin/sh\necho $$ > " << directory << "/started\nexec sleep 600\n";
    ASSERT_EQ(run_in(slurm, {"sbatch", "--output=/dev/null", script}), 0) << slurm.logs();
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (task.empty() && std::chrono::steady_clock::now() < end)
      task = words_of(directory + "/started");
    ASSERT_EQ(task.size(), 1) << slurm.logs();
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_FALSE(std::filesystem::exists("/proc/" + task.front() + "/exe"));
}

}  // namespace
}  // namespace muster::inline v0_1
