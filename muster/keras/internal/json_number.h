// Numbers in the notes of backups.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

namespace muster::inline v0_1::keras::internal {

// JSON has no NaN: it is null there.
inline double json_number(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace muster::inline v0_1::keras::internal
