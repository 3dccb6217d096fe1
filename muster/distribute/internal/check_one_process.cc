#include "muster/distribute/internal/check_one_process.h"

#include <fmt/format.h>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute::internal {

void check_one_process(const cluster::ResolvedCluster& cluster, std::string_view strategy) {
  if (!cluster.distributed()) return;
  throw invalid_argument(
      fmt::format("TF_CONFIG describes {} workers, but the strategy {} trains in one process",
                  cluster.num_workers, strategy),
      "take distribute::multi_worker_mirrored(), for an Estimator as RunConfig{.train_distribute = "
      "...} and in a loop also by name, strategy_by_name(\"multi_worker\"); or unset TF_CONFIG");
}

}  // namespace muster::inline v0_1::distribute::internal
