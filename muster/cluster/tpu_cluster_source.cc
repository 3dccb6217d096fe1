// A slice of a TPU: GKE sets these variables in its pods. The hosts of the slice are the workers.
// A TPU VM sets none; TpuResolver reads its metadata and makes these variables of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/strings.h"
#include "muster/cluster/internal/cluster_sources.h"
#include "muster/cluster/internal/launcher_process.h"
#include "muster/cluster/internal/partial_environment.h"
#include "muster/cluster/tpu_slice.h"

namespace muster::inline v0_1::cluster::internal {
namespace {

std::string tpu_seen(const Surroundings& around) {
  const Environment& environment = around.environment;
  if (!has_tpu_slice(environment)) return "";
  const std::string task = environment.get_or("CLOUD_TPU_TASK_ID", "");
  const std::string type = environment.get_or("TPU_ACCELERATOR_TYPE", "");
  return fmt::format("TPU{}, worker {}", type.empty() ? "" : " " + type,
                     task.empty() ? environment.get_or("TPU_WORKER_ID", "") : task);
}

ResolvedCluster resolve_tpu(const Surroundings& around, const ResolveOptions& /*options*/) {
  const TpuSlice slice = read_tpu_slice(around.environment);
  const std::vector<std::string>& hosts = slice.hosts;
  const auto own = hosts.begin() + slice.worker;
  const auto on_this_host = std::ranges::count(hosts, *own);
  return to_cluster({.source = "TPU",
                     .rank = slice.worker,
                     .size = static_cast<int>(hosts.size()),
                     .local_rank = static_cast<int>(std::count(hosts.begin(), own, *own)),
                     .local_size = static_cast<int>(on_this_host),
                     .one_machine = on_this_host == std::ssize(hosts),
                     .host = hosts.front()},
                    around.environment);
}

std::optional<int64_t> number_of_entries(const std::string& text) {
  return std::ssize(split(text, ','));
}

// A process for each chip has other variables than a process for each host.
std::optional<PartialEnvironment> tpu_left(const Surroundings& around) {
  const Environment& environment = around.environment;
  const bool per_chip =
      !environment.has("TPU_WORKER_HOSTNAMES") &&
      (environment.has("CLOUD_TPU_TASK_ID") || environment.has("TPU_PROCESS_ADDRESSES"));
  const std::array variables = {
      PlaceVariable{per_chip ? "CLOUD_TPU_TASK_ID" : "TPU_WORKER_ID", Counts::kRank},
      PlaceVariable{per_chip ? "TPU_PROCESS_ADDRESSES" : "TPU_WORKER_HOSTNAMES", Counts::kSize,
                    true, true, number_of_entries}};
  return find_partial_environment(
      environment, variables,
      per_chip ? "set both CLOUD_TPU_TASK_ID and TPU_PROCESS_ADDRESSES in every process"
               : "leave both TPU_WORKER_ID and TPU_WORKER_HOSTNAMES as GKE sets them");
}

}  // namespace

ClusterSource tpu_source() {
  return {.name = "TPU", .word = "tpu", .seen = tpu_seen, .resolve = resolve_tpu, .left = tpu_left};
}

}  // namespace muster::inline v0_1::cluster::internal
