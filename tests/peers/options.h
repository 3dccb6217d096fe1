// Options of a program of JSON become the fields of Muster's options.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

namespace muster::inline v0_1 {

// Sets the field where the options have something of that name; otherwise it keeps its default.
template <typename T>
void take(const nlohmann::json& options, const char* name, T& field) {
  if (options.contains(name)) field = options.at(name).get<T>();
}

// Likewise, where null leaves the field unset.
template <typename T>
void take(const nlohmann::json& options, const char* name, std::optional<T>& field) {
  if (!options.contains(name)) return;
  field = std::nullopt;
  if (!options.at(name).is_null()) field = options.at(name).get<T>();
}

}  // namespace muster::inline v0_1
