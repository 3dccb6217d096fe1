// A step of srun: each of its tasks has its number, and the nodes as one list.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"
#include "muster/cluster/slurm_nodelist.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

// Steps in which a shell or the batch script runs, not the tasks of srun.
constexpr std::array kShellSteps = {"batch",      "interactive", "extern",    "4294967290",
                                    "4294967291", "4294967292",  "4294967293"};
// The name of the job when srun gives users a shell on a node, where they start programs by hand.
// Tasks may have these names as well, of srun in a shell of salloc and of `srun bash -c`; the
// terminal distinguishes the shell.
constexpr std::array kShellJobs = {"bash", "interactive"};
constexpr const char* kTerminal = "SLURM_PTY_PORT";

// The first of the variables that is not empty; which of them are set depends on the version of
// Slurm, and on the options of the job.
std::string first_of(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string text = environment.get_or(name, ""); !text.empty()) return text;
  }
  return "";
}

// Why the step is a shell's, in which programs are started by hand; "" if it is none.
std::string why_shell(const Environment& environment, const std::string& step) {
  if (std::ranges::find(kShellSteps, step) != kShellSteps.end())
    return fmt::format("step {} is that of a shell or a batch script", step);
  const std::string name = environment.get_or("SLURM_JOB_NAME", "");
  if (has_all(environment, {kTerminal}) && std::ranges::find(kShellJobs, name) != kShellJobs.end())
    return fmt::format("SLURM_JOB_NAME is {}, as of a shell, with a terminal in {}", name,
                       kTerminal);
  return "";
}

std::string slurm_seen(const Surroundings& around) {
  const Environment& environment = around.environment;
  const std::string step = first_of(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  if (step.empty() || !has_all(environment, {"SLURM_PROCID"})) return "";
  if (!why_shell(environment, step).empty()) return "";
  return fmt::format("Slurm step {}.{}", first_of(environment, {"SLURM_JOB_ID", "SLURM_JOBID"}),
                     step);
}

// How many tasks each node of the step has; nothing if Slurm does not say.
std::vector<int> tasks_of_nodes(const Environment& environment) {
  const std::string text =
      first_of(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  return text.empty() ? std::vector<int>() : expand_tasks_per_node(text);
}

int port_of(const Environment& environment) {
  const auto number = [&](std::initializer_list<const char*> names) {
    const int64_t value = parse_int(first_of(environment, names)).value_or(0);
    return static_cast<uint64_t>(std::max<int64_t>(value, 0));
  };
  // Steps of one job may run at the same time.
  constexpr uint64_t kApart = 97;
  return port_for(number({"SLURM_JOB_ID", "SLURM_JOBID"}) +
                  kApart * number({"SLURM_STEP_ID", "SLURM_STEPID"}));
}

ResolvedCluster resolve_slurm(const Surroundings& around, const ResolveOptions& /*options*/) {
  const Environment& environment = around.environment;
  const std::vector<int> tasks = tasks_of_nodes(environment);
  const int in_all = std::accumulate(tasks.begin(), tasks.end(), 0);
  int size = 0;
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}) {
    if (size == 0) size = number_if_set(environment, name, 1).value_or(0);
  }
  if (size == 0) size = in_all;
  if (size == 0) {
    throw invalid_argument("Slurm says neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS",
                           "say srun --ntasks=N; MUSTER_CLUSTER=local trains alone");
  }
  const int local_rank = number_if_set(environment, "SLURM_LOCALID").value_or(0);
  const auto node = static_cast<size_t>(number_if_set(environment, "SLURM_NODEID").value_or(0));
  // The counts of the job say nothing about a step of fewer tasks.
  int local_size = in_all == size && node < tasks.size() ? tasks[node] : local_rank + 1;
  const std::string list =
      first_of(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const std::vector<std::string> nodes =
      list.empty() ? std::vector<std::string>() : expand_nodelist(list);
  if (nodes.size() == 1) local_size = size;
  return to_cluster({.source = "Slurm",
                     .rank = number_of(environment, "SLURM_PROCID"),
                     .size = size,
                     .local_rank = local_rank,
                     .local_size = local_size,
                     .one_machine = nodes.size() == 1,
                     .host = nodes.empty() ? "" : nodes.front(),
                     .port = port_of(environment)},
                    environment);
}

// In a shell of salloc, and in the script of sbatch, the numbers of tasks are those that srun would
// start: this process is none of them, unless it has a number above 0.
std::optional<PartialEnvironment> slurm_left(const Surroundings& around) {
  const Environment& environment = around.environment;
  const std::string step = first_of(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  const std::string shell = why_shell(environment, step);
  const bool is_task = !step.empty() && shell.empty();
  const Counts tasks = is_task ? Counts::kSize : Counts::kMaybe;
  const std::array variables = {
      PlaceVariable{"SLURM_PROCID", Counts::kRank, is_task},
      PlaceVariable{"SLURM_NTASKS", tasks, false},
      PlaceVariable{"SLURM_STEP_NUM_TASKS", tasks, false},
      PlaceVariable{"SLURM_NPROCS", tasks, false},
      PlaceVariable{"SLURM_STEP_ID", Counts::kNothing, step.empty(), false}};
  return find_partial_environment(
      environment, variables,
      shell.starts_with("SLURM_JOB_NAME")
          ? "start the tasks by srun --job-name=NAME, or set SLURM_JOB_NAME to another "
            "name"
          : "start the tasks by srun",
      shell);
}

}  // namespace

ClusterSource slurm_source() {
  return {.name = "Slurm",
          .word = "slurm",
          .seen = slurm_seen,
          .resolve = resolve_slurm,
          .left = slurm_left};
}

}  // namespace muster::inline v0_1::cluster::internal
