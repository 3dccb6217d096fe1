// RANK, WORLD_SIZE, MASTER_ADDR: set in each pod by Kubeflow's PyTorchJob, and by scripts.
#include <fmt/format.h>

#include <array>

#include "muster/cluster/address.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

std::string rank_variables_seen(const Surroundings& around) {
  if (!has_all(around.environment, {"RANK", "WORLD_SIZE", "MASTER_ADDR"})) return "";
  // torchrun and PET_* set these in addition; RANK may then count the nodes.
  for (const char* name : {"GROUP_RANK", "PET_NODE_RANK", "PET_NNODES"})
    if (has_all(around.environment, {name})) return "";
  return fmt::format("RANK {} of WORLD_SIZE {}", around.environment.get_or("RANK", ""),
                     around.environment.get_or("WORLD_SIZE", ""));
}

ResolvedCluster resolve_rank_variables(const Surroundings& around,
                                       const ResolveOptions& /*options*/) {
  const Environment& environment = around.environment;
  const int size = number_of(environment, "WORLD_SIZE", 1);
  const int rank = number_of(environment, "RANK");
  // A process that is to meet rank 0 on loopback is on the same machine. Rank 0 itself gets a
  // loopback address too in the master pod of a PyTorchJob, whose other pods are elsewhere.
  const bool pod = rank == 0 && environment.has("KUBERNETES_SERVICE_HOST");
  const bool together = is_loopback(environment.get_or("MASTER_ADDR", "")) && !pod;
  const auto said_size = number_if_set(environment, "LOCAL_WORLD_SIZE", 1);
  const int local_rank = number_if_set(environment, "LOCAL_RANK")
                             .value_or(together ? rank % said_size.value_or(size) : 0);
  // Elsewhere a pod has one process, and sets no variable for it; with LOCAL_RANK alone there are
  // at least LOCAL_RANK + 1.
  const int local_size = said_size.value_or(together ? size : local_rank + 1);
  return to_cluster({.source = "RANK and WORLD_SIZE",
                     .rank = rank,
                     .size = size,
                     .local_rank = local_rank,
                     .local_size = local_size,
                     .one_machine = local_size == size},
                    environment);
}

// Many shells have a MASTER_ADDR, which does not mean that the process is a rank.
std::optional<PartialEnvironment> rank_variables_left(const Surroundings& around) {
  constexpr std::array kVariables = {PlaceVariable{"RANK", Counts::kRank},
                                     PlaceVariable{"WORLD_SIZE", Counts::kSize},
                                     PlaceVariable{"MASTER_ADDR", Counts::kNothing, true, false}};
  return find_partial_environment(
      around.environment, kVariables,
      "set RANK, WORLD_SIZE and, to the host of rank 0, MASTER_ADDR in every process "
      "(a pod of an Indexed Job has JOB_COMPLETION_INDEX in place of RANK)");
}

}  // namespace

ClusterSource rank_variables_source() {
  return {.name = "RANK and WORLD_SIZE",
          .word = "rank",
          .seen = rank_variables_seen,
          .resolve = resolve_rank_variables,
          .left = rank_variables_left};
}

}  // namespace muster::inline v0_1::cluster::internal
