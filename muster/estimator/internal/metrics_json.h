// Metrics as JSON, with NaN and infinity as texts. Thread safety: pure functions.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/train/results.h"

namespace muster::inline v0_1::internal {

inline nlohmann::json json_of_metrics(const EvalResult& metrics) {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, value] : metrics)
    all[name] =
        std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(fmt::format("{}", value));
  return all;
}

// Throws nlohmann::json::exception when a metric is neither a number nor a text.
inline EvalResult metrics_of_json(const nlohmann::json& all) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EvalResult metrics;
  for (const auto& [name, value] : all.items()) {
    if (value.is_number()) {
      metrics[name] = value.get<double>();
      continue;
    }
    const std::string text = value.get<std::string>();
    metrics[name] = text == "inf"    ? kInfinity
                    : text == "-inf" ? -kInfinity
                                     : std::numeric_limits<double>::quiet_NaN();
  }
  return metrics;
}

}  // namespace muster::inline v0_1::internal
