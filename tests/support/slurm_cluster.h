// A Slurm cluster of this machine alone, for tests: slurmctld and one slurmd for each node, with
// their files in a temporary directory and on free ports. Thread safety: one thread, the test's.
//
//   if (const std::string why = SlurmCluster::why_not(); !why.empty()) GTEST_SKIP() << why;
//   const SlurmCluster slurm({.nodes = 2});
//   run({"srun", "-N", "2", "hostname"}, slurm.environment());
//
// No munge and no database: no user is authenticated (auth/none), so the daemons listen on loopback
// only. Jobs are not put into cgroups, and processors are counted but not bound.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/temp_directory.h"
#include "muster/launch/child_process.h"

namespace muster::inline v0_1 {

class SlurmCluster {
 public:
  struct Options {
    int nodes = 1;          // called node01, node02, ...; each is this machine
    int cpus = 4;           // of each node, whatever this machine has
    int kill_wait_s = 30;   // between SIGTERM and SIGKILL: KillWait
    std::string more = "";  // further lines of slurm.conf
  };

  // Why no cluster can be started here, "" if one can: Slurm is not installed, or this is not the
  // superuser, which slurmd needs.
  static std::string why_not();

  // Starts the daemons and waits, at most 90 s, until all nodes are idle. Throws Unavailable with
  // their output.
  SlurmCluster() : SlurmCluster(Options()) {}
  explicit SlurmCluster(const Options& options);
  // Cancels the jobs, waits for their end at most 30 s, and stops the daemons.
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  // The variable that makes srun, sbatch, squeue, scancel, sacct and scontrol use this cluster:
  // SLURM_CONF.
  const std::map<std::string, std::string>& environment() const { return environment_; }
  // For files of a test: removed with the cluster.
  const std::string& directory() const { return directory_.path(); }
  // The logs of the daemons, for a message of a test.
  std::string logs() const;

 private:
  // Whether all nodes were idle in time.
  bool start(const Options& options);
  void stop();
  // The output of a client command, which gets 30 s; `code` is its exit code.
  std::string client(const std::vector<std::string>& command, int* code = nullptr) const;
  launch::ChildProcess daemon(const std::vector<std::string>& command,
                              const std::string& log) const;

  TempDirectory directory_;
  std::map<std::string, std::string> environment_;
  std::vector<launch::ChildProcess> daemons_;  // slurmctld first
};

}  // namespace muster::inline v0_1
