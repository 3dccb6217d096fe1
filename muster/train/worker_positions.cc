#include "muster/train/internal/worker_positions.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

std::vector<std::string> positions_of_workers(const nlohmann::json& train, int workers,
                                              const std::string& prefix) {
  const std::string dealt_by = train.value("dealt_by", "muster");
  // All are at the same place of one order, each with a part of it.
  if (dealt_by == "muster")
    return std::vector<std::string>(static_cast<size_t>(workers), train.at("position").dump());
  std::vector<std::string> positions;
  for (const auto& position : train.at("positions"))
    positions.push_back(position.is_string() ? position.get<std::string>() : position.dump());
  if (positions.size() == static_cast<size_t>(workers)) return positions;
  throw invalid_argument(
      fmt::format("{} holds the positions of {} workers with separate data, each at its own speed, "
                  "but this run has {}: the unread examples are unknown",
                  prefix, positions.size(), workers),
      "continue on the same number of workers; or set RunConfig.restart_input, which keeps the "
      "weights and reads the input from its beginning");
}

}  // namespace muster::inline v0_1::internal
