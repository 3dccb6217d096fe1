#include "muster/board/compare_runs.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace muster::inline v0_1::board {
namespace {

using nlohmann::json;

json json_of_value(float value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

// The last value of each step.
std::map<int64_t, float> by_step(const std::vector<ScalarPoint>& points) {
  std::map<int64_t, float> values;
  for (const ScalarPoint& point : points) values[point.step] = point.value;
  return values;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

}  // namespace

json compare_json(const ScalarPoints& a, const ScalarPoints& b) {
  json all = json::array();
  for (const auto& [tag, points] : a) {
    const auto other = b.find(tag);
    if (other == b.end() || points.empty() || other->second.empty()) continue;
    const std::map<int64_t, float> values_a = by_step(points), values_b = by_step(other->second);
    int64_t common = 0;
    std::optional<int64_t> parts_at;
    json at_a, at_b;
    for (const auto& [step, value] : values_a) {
      const auto found = values_b.find(step);
      if (found == values_b.end()) continue;
      ++common;
      if (parts_at) continue;
      at_a = json_of_value(value);
      at_b = json_of_value(found->second);
      if (!same_bits(value, found->second)) parts_at = step;
    }
    all.push_back({{"tag", tag},
                   {"steps", common},
                   {"parts_at", parts_at ? json(*parts_at) : json()},
                   {"a", at_a},
                   {"b", at_b},
                   {"last_a", json_of_value(values_a.rbegin()->second)},
                   {"last_b", json_of_value(values_b.rbegin()->second)},
                   {"last_step_a", values_a.rbegin()->first},
                   {"last_step_b", values_b.rbegin()->first}});
  }
  return all;
}

}  // namespace muster::inline v0_1::board
