// Lets two processes of this machine meet as two workers do: through a coordinator on loopback,
// then with a sum over each transport. Every wait is bounded. Thread safety: one call at a time.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace muster::probe {

// Starts this program again as the second process, with the arguments "--second ADDRESS", and is
// the first one itself. Returns {"coordinator": r, "tcp": r, "shared_memory": r}, where each r is
// {"state": "ok"|"failed"|"skipped", "error", "hint", "why" (it was skipped)}.
nlohmann::json talk();

// Is the second process; returns its exit code.
int talk_as_second(const std::string& coordinator);

}  // namespace muster::probe
