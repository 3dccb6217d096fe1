// torchrun, torch's elastic launcher: it sets the ranks of each process, and where rank 0 is.
#include <fmt/format.h>

#include <array>

#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

std::string torchrun_seen(const Surroundings& around) {
  // GROUP_RANK distinguishes torchrun from scripts that set the ranks alone.
  if (!has_all(around.environment,
               {"RANK", "WORLD_SIZE", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}))
    return "";
  const std::string run = around.environment.get_or("TORCHELASTIC_RUN_ID", "");
  return run.empty() || run == "none" ? "torchrun" : "torchrun " + run;
}

ResolvedCluster resolve_torchrun(const Surroundings& around, const ResolveOptions& /*options*/) {
  const Environment& environment = around.environment;
  const int size = number_of(environment, "WORLD_SIZE", 1);
  const int local_size = number_of(environment, "LOCAL_WORLD_SIZE", 1);
  return to_cluster({.source = "torchrun",
                     .rank = number_of(environment, "RANK"),
                     .size = size,
                     .local_rank = number_of(environment, "LOCAL_RANK"),
                     .local_size = local_size,
                     .one_machine = local_size == size},
                    environment);
}

// A script that sets RANK, WORLD_SIZE and LOCAL_RANK is nearer to those than to torchrun.
std::optional<PartialEnvironment> torchrun_left(const Surroundings& around) {
  constexpr std::array kVariables = {PlaceVariable{"RANK", Counts::kRank, true, false},
                                     PlaceVariable{"WORLD_SIZE", Counts::kSize, true, false},
                                     PlaceVariable{"GROUP_RANK", Counts::kRank},
                                     PlaceVariable{"LOCAL_RANK", Counts::kRank},
                                     PlaceVariable{"LOCAL_WORLD_SIZE", Counts::kLocalSize}};
  return find_partial_environment(
      around.environment, kVariables,
      "start the program by torchrun, which sets all of these, or set RANK, WORLD_SIZE "
      "and MASTER_ADDR in every process");
}

}  // namespace

ClusterSource torchrun_source() {
  return {.name = "torchrun",
          .word = "torchrun",
          .seen = torchrun_seen,
          .resolve = resolve_torchrun,
          .left = torchrun_left};
}

}  // namespace muster::inline v0_1::cluster::internal
