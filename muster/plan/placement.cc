#include "muster/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

void check_at_least(const char* what, int64_t value, int64_t least) {
  if (value >= least) return;
  throw invalid_argument(fmt::format("a partitioner got {} = {}", what, value),
                         fmt::format("give {} or more", least));
}

}  // namespace

Partitioner Partitioner::none() { return {Kind::kNone, 0, 0}; }

Partitioner Partitioner::fixed(int64_t parts) {
  check_at_least("parts", parts, 1);
  return {Kind::kFixed, parts, 0};
}

Partitioner Partitioner::min_size(int64_t bytes, int64_t max_parts) {
  check_at_least("bytes", bytes, 1);
  check_at_least("max_parts", max_parts, 0);
  return {Kind::kMinSize, bytes, max_parts};
}

Partitioner Partitioner::max_size(int64_t bytes, int64_t max_parts) {
  check_at_least("bytes", bytes, 1);
  check_at_least("max_parts", max_parts, 0);
  return {Kind::kMaxSize, bytes, max_parts};
}

int64_t Partitioner::parts(int64_t rows, int64_t bytes_per_row, int servers) const {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  int64_t parts = 1;
  switch (kind_) {
    case Kind::kNone:
      break;
    case Kind::kFixed:
      parts = size_;
      break;
    case Kind::kMinSize:
      parts = std::min(up(rows * bytes_per_row, size_), max_parts_ == 0 ? servers : max_parts_);
      break;
    case Kind::kMaxSize:
      parts = up(rows, std::max<int64_t>(1, size_ / std::max<int64_t>(1, bytes_per_row)));
      if (max_parts_ > 0) parts = std::min(parts, max_parts_);
      break;
  }
  return std::max<int64_t>(1, std::min(parts, rows));
}

std::string Partitioner::describe() const {
  const std::string most = max_parts_ > 0 ? fmt::format(", max_parts={}", max_parts_) : "";
  switch (kind_) {
    case Kind::kNone:
      return "none";
    case Kind::kFixed:
      return fmt::format("fixed({})", size_);
    case Kind::kMinSize:
      return fmt::format("min_size({}{})", size_, most);
    case Kind::kMaxSize:
      return fmt::format("max_size({}{})", size_, most);
  }
  return "";
}

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
