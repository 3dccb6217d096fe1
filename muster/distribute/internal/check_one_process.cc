#include "muster/distribute/internal/check_one_process.h"

#include <fmt/format.h>

#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute::internal {

void check_no_servers(const cluster::ResolvedCluster& cluster, std::string_view strategy) {
  if (cluster.num_ps == 0) return;
  throw invalid_argument(
      fmt::format("TF_CONFIG lists parameter servers, which {} does not use", strategy),
      "take --strategy=parameter_server, where the program has that flag; in its source "
      ".train_distribute = distribute::parameter_server(); or remove \"ps\" from "
      "\"cluster\" in TF_CONFIG of every task");
}

void check_one_process(const cluster::ResolvedCluster& cluster, std::string_view strategy) {
  check_no_servers(cluster, strategy);
  if (!cluster.distributed()) return;
  const std::string source = cluster.source.empty() ? "TF_CONFIG" : cluster.source;
  const bool plural = source.find(" and ") != std::string::npos;  // RANK and WORLD_SIZE
  throw invalid_argument(
      fmt::format("{} {} {} workers, but the strategy {} trains in one process", source,
                  plural ? "describe" : "describes", cluster.num_workers, strategy),
      "take --strategy=multi_worker, where the program has that flag; in its source "
      "distribute::multi_worker_mirrored(), for an Estimator as RunConfig{.train_distribute = ...} "
      "and in a loop also by name, strategy_by_name(\"multi_worker\"); or " +
          std::string(source == "TF_CONFIG" ? "unset TF_CONFIG" : "set MUSTER_CLUSTER=local"));
}

}  // namespace muster::inline v0_1::distribute::internal
