// A program unchanged under real launchers: it finds its place, and ends with the bits that it has
// under `muster run`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "muster/base/free_ports.h"
#include "tests/end_to_end/program.h"
#include "tests/support/slurm_cluster.h"

namespace muster::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSteps = 20;

Words training(const std::string& model_dir, int steps = kSteps) {
  return mnist(model_dir,
               {"--max_steps=" + std::to_string(steps), "--save_checkpoints_steps=1000"});
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool installed(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

// MPICH and a lone node of Kubeflow say nothing by which two runs on one machine differ.
Variables free_port_too(Variables variables = {}) {
  variables["MUSTER_PORT"] = std::to_string(free_port());
  return variables;
}

class LaunchersTest : public ::testing::Test {
 protected:
  // Expects that two workers trained as under `muster run`, and that `line` is in their log.
  void expect_as_under_muster_run(const Ran& ran, const std::string& name,
                                  const std::string& line) {
    ASSERT_EQ(ran.code, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(line));
    static const std::string expected = [] {
      const TempDirectory directory;
      const Ran run_by_us = run(muster_run({"--workers=2"}, training(directory / "model")));
      EXPECT_EQ(run_by_us.code, 0) << run_by_us.output;
      EXPECT_THAT(run_by_us.output, Not(HasSubstr("started by")));
      return result_of(run_by_us) + checkpoint_bytes(directory / "model", kSteps);
    }();
    EXPECT_TRUE(result_of(ran) + checkpoint_bytes(directory_ / name, kSteps) == expected)
        << ran.output;
  }

  const TempDirectory directory_;
};

// Why Debian's torchrun cannot start anything here; "" where it can.
std::string why_no_torchrun() {
  if (!installed("/usr/bin/torchrun")) return "torchrun is not installed (python3-torch)";
  // Debian 13's PyTorch is built without libuv, and each rendezvous of its torchrun asks for it.
  const Ran ran = run({"/usr/bin/torchrun", "--standalone", "--no_python", "/bin/true"});
  return ran.output.find("without libuv") == std::string::npos
             ? ""
             : "this torchrun asks for libuv, without which its PyTorch is built";
}

// Arguments for Debian's torchrun under Python 3.11, where it fails without both of -r and -t.
Words torchrun(const std::string& logs) {
  return Words{"/usr/bin/torchrun", "--standalone", "--nproc_per_node=2", "-r", "1", "-t", "1",
               "--log_dir=" + logs, "--no_python"};
}

TEST_F(LaunchersTest, Torchrun) {
  if (const std::string why = why_no_torchrun(); !why.empty()) GTEST_SKIP() << why;
  const Ran ran = run(torchrun(directory_ / "logs") + training(directory_ / "model"));
  expect_as_under_muster_run(ran, "model", "started by torchrun ");
}

TEST_F(LaunchersTest, TorchrunShowsWhyAWorkerFailed) {
  if (const std::string why = why_no_torchrun(); !why.empty()) GTEST_SKIP() << why;
  const Ran ran = run(torchrun(directory_ / "logs") +
                      Words{binary("mnist"), "--data_dir=" + directory_ / "nothing"});
  EXPECT_NE(ran.code, 0);
  EXPECT_THAT(ran.output, AllOf(HasSubstr("exitcode  : 2"), HasSubstr("traceback : NotFound: ")));
}

TEST_F(LaunchersTest, OpenMpi) {
  const std::string mpirun = "/usr/bin/mpirun.openmpi";
  if (!installed(mpirun)) GTEST_SKIP() << mpirun << " is not installed (openmpi-bin)";
  const Ran ran =
      run(Words{mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"} +
          training(directory_ / "model"));
  expect_as_under_muster_run(ran, "model", "started by Open MPI rank 0 of 2");
}

// No task has an address in its environment: over TCP each has to find one for the other.
TEST_F(LaunchersTest, Mpich) {
  const std::string mpiexec = "/usr/bin/mpiexec.hydra";
  if (!installed(mpiexec)) GTEST_SKIP() << mpiexec << " is not installed (mpich)";
  const Ran ran = run(Words{mpiexec, "-n", "2"} + training(directory_ / "model"),
                      free_port_too({{"MUSTER_TRANSPORT", "tcp"}}));
  expect_as_under_muster_run(ran, "model", "started by MPICH rank 0 of 2");
}

// A pod of Kubeflow's Trainer that shall run two processes, without torchrun in its image.
TEST_F(LaunchersTest, AProgramInPlaceOfTorchrun) {
  const Ran ran = run(
      training(directory_ / "model"),
      free_port_too({{"PET_NNODES", "1"}, {"PET_NPROC_PER_NODE", "2"}, {"PET_NODE_RANK", "0"}}));
  expect_as_under_muster_run(ran, "model", "starting 2 processes, rank 0 to 1 of 2");
}

class SlurmTest : public LaunchersTest {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(SlurmTest, TasksOfOneNodeAndOfTwo) {
  const SlurmCluster slurm({.nodes = 2});
  const Ran one =
      run(Words{"srun", "-N", "1", "-n", "2"} + training(directory_ / "one"), slurm.environment());
  expect_as_under_muster_run(one, "one", "started by Slurm step 1.0");
  // Both nodes are this machine, and their names are not hosts. In an allocation of salloc, the
  // step has the name of a shell, and is none.
  Variables variables = slurm.environment();
  variables["MASTER_ADDR"] = "127.0.0.1";
  const Ran two =
      run(Words{"salloc", "-N", "2", "-n", "2", "srun"} + training(directory_ / "two"), variables);
  expect_as_under_muster_run(two, "two", "started by Slurm step 2.0");
  // One launcher in the other: the inner one counts. Open MPI 5 takes what its arguments say from
  // variables alone.
  variables = slurm.environment();
  variables["PRTE_MCA_plm"] = variables["PRTE_MCA_ras"] = "^slurm";
  if (!installed("/usr/bin/mpirun.openmpi")) return;
  const Ran inner = run(
      Words{"srun", "-n", "1", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe",
            "--bind-to", "none", "-mca", "plm", "isolated", "-mca", "ras", "^slurm", "-n", "2"} +
          training(directory_ / "inner"),
      variables);
  expect_as_under_muster_run(
      inner, "inner", "started by Open MPI rank 0 of 2 (also seen, not used: Slurm step 3.0)");
}

// --signal=USR1@90: the time is nearly over.
TEST_F(SlurmTest, SavesInTimeAndContinuesWhenItIsStartedAgain) {
  until_in_time([&] {
    const SlurmCluster slurm;
    std::filesystem::remove_all(directory_ / "model");
    const Words command = Words{"srun", "-n", "2"} + training(directory_ / "model", 300);
    {
      Program program(command, slurm.environment());
      program.wait_for("step 101/300");
      // For a step that has ended it prints this, and ends with 1.
      const Ran told = run({"scancel", "--signal=USR1", "1.0"}, slurm.environment());
      const int code = program.wait();
      if (has_checkpoint(directory_ / "model", 300)) return false;
      EXPECT_EQ(told.code, 0) << told.output;
      EXPECT_EQ(code, 138) << program.output();
      EXPECT_THAT(program.output(), HasSubstr("stopped by SIGUSR1 after saving step"));
    }
    const Ran rest = run(command, slurm.environment());
    EXPECT_EQ(rest.code, 0) << rest.output;
    EXPECT_THAT(rest.output, HasSubstr("continuing after step"));
    return true;
  });
  const Ran whole = run(muster_run({"--workers=2"}, training(directory_ / "whole", 300)));
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_TRUE(checkpoint_bytes(directory_ / "model", 300) ==
              checkpoint_bytes(directory_ / "whole", 300));
}

}  // namespace
}  // namespace muster::testing
