// Searches of hyperparameters, as `muster submit` keeps them in a job's folder. Thread safety: pure
// functions of the files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::board {

// The file with the trials of a search.
inline constexpr const char* kSearchFile = "search.json";

// Returns {"directory", "maximize", "metric", "trials": [{"number", "values", "state", "failure",
// "exit_code", "log", "measurements": their number, "curve": [[step, value]] of at most 200 of
// them, "best", "best_step", "last"}]} of the search in the folder; null where there is none that
// can be read. "best" is the greatest measurement, the least where "maximize" is false, and null
// without one.
nlohmann::json search_json(FileSystem& files, const std::string& directory);

}  // namespace muster::inline v0_1::board
