// mpirun of Open MPI, and of MPICH and those that start processes as it does. Programs of ours
// speak no MPI: of its launchers they take the ranks alone.
#include <fmt/format.h>

#include <array>

#include "muster/base/error.h"
#include "muster/cluster/internal/guest.h"
#include "muster/cluster/internal/sources.h"
#include "muster/cluster/slurm_nodelist.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

// The variables of one kind of launcher.
struct MpiNames {
  const char* kind;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* pass;  // how it hands a variable on to all processes
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

// What tells this run of mpirun from others on its machines; MPICH has no word for it.
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
       .no_host_hint = fmt::format("name the machine of rank 0 for all of them: {}; MPI itself "
                                   "could tell, but this program is not linked with it",
                                   names.pass),
       .port = job.empty() ? 0 : port_for(job)},
      environment);
}

}  // namespace

ClusterSource mpi_source() {
  return {.name = "MPI", .word = "mpi", .seen = mpi_seen, .resolve = resolve_mpi};
}

}  // namespace muster::inline v0_1::cluster::internal
