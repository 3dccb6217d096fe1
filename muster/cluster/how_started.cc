#include "muster/cluster/how_started.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::inline v0_1::cluster {

std::string how_started(const ResolvedCluster& cluster, const std::string& task) {
  const auto place = std::ranges::find(cluster.workers, task, &Task::name);
  if (place == cluster.workers.end()) return "";
  const auto rank = place - cluster.workers.begin();
  const size_t size = cluster.workers.size();
  if (cluster.source == "RANK and WORLD_SIZE") {
    const std::string& address = cluster.coordinator_address;
    return fmt::format("with RANK={}, WORLD_SIZE={} and MASTER_ADDR={}", rank, size,
                       address.substr(0, address.rfind(':')));
  }
  if (cluster.source.empty() || cluster.source == "TF_CONFIG") {
    return fmt::format(
        R"(with the same cluster and "task":{{"type":"{}","index":{}}} in TF_CONFIG)", place->type,
        place->index);
  }
  return fmt::format("by {}, as rank {} of {}", cluster.source, rank, size);
}

}  // namespace muster::inline v0_1::cluster
