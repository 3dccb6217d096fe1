// The targets there are, in one place. Thread safety: free functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/jobs/kubernetes_target.h"
#include "muster/jobs/target.h"
#include "muster/jobs/vertex_target.h"

namespace muster::inline v0_1::jobs {

// The targets' parameters in addition to the job, from flags of `muster submit`. Each target reads
// its own; the parameters that `muster jobs` needs again are in JobRecord::details.
struct TargetOptions {
  // Path of the muster binary, which stays with a job of this machine and starts tasks of Slurm's.
  std::string muster{};
  std::vector<std::string> slurm_flags{};  // passed on to sbatch: "--partition=gpu"
  KubernetesTargetOptions kubernetes{};    // the cluster, and the content of its documents
  VertexTargetOptions vertex{};            // the project, and the machines if none is named
};

// "local", "slurm", ..., as --to takes them.
std::vector<std::string> target_names();
// Throws InvalidArgument for a name that no target has.
std::unique_ptr<Target> make_target(const std::string& name, const TargetOptions& options);

}  // namespace muster::inline v0_1::jobs
