#include "muster/loop/internal/served_positions.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

namespace {

void check_workers(size_t there, int workers, const std::string& prefix) {
  if (there == static_cast<size_t>(workers)) return;
  throw invalid_argument(
      fmt::format("{} holds the positions of {} workers with separate data, but this run has {}: "
                  "the unread examples are unknown",
                  prefix, there, workers),
      "continue on the same number of workers, including the chief; or use Scope::warm_start() "
      "instead of restore(), which takes its weights and reads the data from the beginning");
}

// The position of a data set of a loop in step, for the worker `rank` of `workers`.
json for_worker(json data, int rank, int workers, const std::string& prefix) {
  if (!data.contains("pass")) return data;
  const json stood = data.at("pass").at("data");
  // All stood at the same place of one order, each with a part of it.
  if (stood.value("dealt_by", "muster") == "muster") {
    data["pass"]["data"] = stood.at("position");
    return data;
  }
  check_workers(stood.at("positions").size(), workers, prefix);
  data["pass"]["data"] = stood.at("positions").at(static_cast<size_t>(rank));
  return data;
}

}  // namespace

std::string to_position(const json& data) { return json{{"loop", data}}.dump(); }

json data_of(const std::string& position) {
  const json parsed = position.empty() ? json() : json::parse(position);
  return parsed.is_object() ? parsed.value("loop", json::array()) : json::array();
}

std::vector<std::string> positions_of_loop(const json& inputs, int workers,
                                           const std::string& prefix) {
  std::vector<std::string> positions;
  if (inputs.contains("loop")) {
    for (int rank = 0; rank < workers; ++rank) {
      json mine = json::array();
      for (const json& data : inputs.at("loop"))
        mine.push_back(for_worker(data, rank, workers, prefix));
      positions.push_back(to_position(mine));
    }
    return positions;
  }
  const json train = inputs.value("train", json::object());
  if (train.value("dealt_by", "") != "workers") return {};
  for (const json& position : train.at("positions"))
    positions.push_back(position.is_string() ? position.get<std::string>() : "");
  if (std::ranges::all_of(positions, [](const auto& its) { return data_of(its).empty(); }))
    return {};
  check_workers(positions.size(), workers, prefix);
  return positions;
}

}  // namespace muster::inline v0_1::distribute
