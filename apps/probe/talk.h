// Two processes of this machine meet as two workers do: a coordinator on loopback, then a sum over
// each transport. Every wait is bounded. Thread safety: one call at a time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace muster::probe {

// Starts this program again as the second process, with the words "--second ADDRESS", and is the
// first. {"coordinator": r, "gloo": r, "shared_memory": r}, each r
// {"state": "ok"|"failed"|"skipped", "error", "hint", "why" (it was skipped)}.
nlohmann::json talk();

// The second process: returns its exit code.
int talk_as_second(const std::string& coordinator);

}  // namespace muster::probe
