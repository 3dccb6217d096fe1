// mpirun of Open MPI, and of MPICH and launchers that start processes in the same way. Muster's
// programs use no MPI: they take only the ranks from its launchers.
#include <fmt/format.h>

#include <array>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"
#include "muster/cluster/slurm_nodelist.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

// The variables of one kind of launcher.
struct MpiNames {
  const char* kind{};
  const char* rank{};
  const char* size{};
  const char* local_rank{};
  const char* local_size{};
  const char* pass{};  // how it hands a variable on to all processes
};

constexpr std::array kKinds = {
    MpiNames{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
             "mpirun -x MASTER_ADDR=HOST"},
    MpiNames{"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
             "MV2_COMM_WORLD_LOCAL_SIZE", "mpirun -genv MASTER_ADDR HOST"},
    // Slurm sets the first two as well; the others are Hydra's.
    MpiNames{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
             "mpiexec -genv MASTER_ADDR HOST"}};

const MpiNames* kind_of(const Environment& environment) {
  for (const MpiNames& names : kKinds) {
    if (has_all(environment, {names.rank, names.size, names.local_rank, names.local_size}))
      return &names;
  }
  return nullptr;
}

std::string mpi_seen(const Surroundings& around) {
  const MpiNames* names = kind_of(around.environment);
  if (names == nullptr) return "";
  return fmt::format("{} rank {} of {}", names->kind, around.environment.get_or(names->rank, ""),
                     around.environment.get_or(names->size, ""));
}

// Distinguishes this run of mpirun from others on its machines; MPICH has no variable for it.
std::string job_of(const Environment& environment) {
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "MPIEXEC_UUID"}) {
    if (std::string text = environment.get_or(name, ""); !text.empty()) return text;
  }
  return "";
}

// In a job of Slurm mpirun fills the nodes in their order.
std::string first_node(const Environment& environment) {
  const std::string list = environment.get_or("SLURM_JOB_NODELIST", "");
  return list.empty() ? "" : expand_nodelist(list).front();
}

ResolvedCluster resolve_mpi(const Surroundings& around, const ResolveOptions& /*options*/) {
  const Environment& environment = around.environment;
  const MpiNames& names = *kind_of(environment);
  const std::string job = job_of(environment);
  const int size = number_of(environment, names.size, 1);
  const int local_size = number_of(environment, names.local_size, 1);
  return to_cluster(
      {.source = names.kind,
       .rank = number_of(environment, names.rank),
       .size = size,
       .local_rank = number_of(environment, names.local_rank),
       .local_size = local_size,
       .one_machine = local_size == size,
       .host = first_node(environment),
       .no_host_hint = fmt::format("name the machine of rank 0 for all of them: {}; this program "
                                   "is not linked with MPI, which could tell",
                                   names.pass),
       .port = job.empty() ? 0 : port_for(job)},
      environment);
}

std::optional<PartialEnvironment> mpi_left(const Surroundings& around) {
  const Environment& environment = around.environment;
  // Slurm, too, sets variables besides Open MPI's or Hydra's own; it has a source of its own.
  const bool own =
      !has_all(environment, {"SLURM_JOB_ID"}) && !has_all(environment, {"SLURM_JOBID"});
  std::vector<PartialEnvironment> partials;
  for (const MpiNames& names : kKinds) {
    const bool shared = std::string_view(names.rank) == "PMI_RANK";
    const std::array variables = {PlaceVariable{names.rank, Counts::kRank, true, own || !shared},
                                  PlaceVariable{names.size, Counts::kSize, true, own || !shared},
                                  PlaceVariable{names.local_rank, Counts::kRank},
                                  PlaceVariable{names.local_size, Counts::kLocalSize}};
    if (auto partial = find_partial_environment(
            environment, variables,
            fmt::format("start the program by the mpirun of {}, which sets all of "
                        "these, or set RANK, WORLD_SIZE and MASTER_ADDR in every "
                        "process",
                        names.kind)))
      partials.push_back(*partial);
  }
  const std::array pmix = {PlaceVariable{"PMIX_RANK", Counts::kRank, true, own},
                           PlaceVariable{"WORLD_SIZE", Counts::kSize, true, false}};
  if (auto partial =
          find_partial_environment(environment, pmix,
                                   "set RANK, WORLD_SIZE and MASTER_ADDR in every process: PMIx "
                                   "gives the number of processes only to its own library"))
    partials.push_back(*partial);
  const PartialEnvironment* const partial = plainest(partials);
  return partial != nullptr ? std::optional(*partial) : std::nullopt;
}

}  // namespace

ClusterSource mpi_source() {
  return {.name = "MPI", .word = "mpi", .seen = mpi_seen, .resolve = resolve_mpi, .left = mpi_left};
}

}  // namespace muster::inline v0_1::cluster::internal
