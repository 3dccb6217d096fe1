#include "muster/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {

std::vector<Shard> place(const std::vector<PlacedVariable>& variables, int servers,
                         Placement placement, const Partitioner& partitioner) {
  if (servers < 1) {
    throw invalid_argument(fmt::format("variables are placed on {} servers", servers),
                           "list at least one in \"ps\" of \"cluster\" in TF_CONFIG");
  }
  std::vector<Shard> shards;
  std::vector<int64_t> load(static_cast<size_t>(servers), 0);
  int turn = 0;
  for (size_t v = 0; v < variables.size(); ++v) {
    const PlacedVariable& variable = variables[v];
    const int64_t rows = variable.shape.empty() ? 1 : variable.shape[0];
    const int64_t bytes_per_row = rows > 0 ? variable.bytes / rows : 0;
    const int64_t parts = variable.whole || variable.shape.empty() || rows == 0
                              ? 1
                              : partitioner.parts(rows, bytes_per_row, servers);
    int64_t begin = 0;
    for (int64_t part = 0; part < parts; ++part) {
      Shard shard{.variable = static_cast<int>(v),
                  .part = static_cast<int>(part),
                  .parts = static_cast<int>(parts),
                  .begin = begin,
                  .end = begin + rows / parts + (part < rows % parts ? 1 : 0)};
      if (placement == Placement::kRoundRobin) {
        shard.server = turn++ % servers;
      } else {
        shard.server = static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
      }
      load[static_cast<size_t>(shard.server)] += (shard.end - shard.begin) * bytes_per_row;
      begin = shard.end;
      shards.push_back(shard);
    }
  }
  return shards;
}

std::string shard_name(const std::string& variable, const Shard& shard) {
  return shard.parts == 1 ? variable : fmt::format("{}/part_{}", variable, shard.part);
}

}  // namespace muster::inline v0_1::plan
