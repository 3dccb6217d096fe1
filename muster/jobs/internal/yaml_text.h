// Writes JSON as the YAML that people read. Thread safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace muster::inline v0_1::jobs::internal {

// Returns `value` in block style, two blanks a level, with a line end after the last line. Keys
// keep their order. A text is in quotes unless every YAML reader, of version 1.1 and 1.2, takes it
// for the same text without them.
std::string to_yaml(const nlohmann::ordered_json& value);

}  // namespace muster::inline v0_1::jobs::internal
