// The live runs of a board: what the tasks of a run do now, and who makes the others wait.
// Thread safety: free functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::board {

// The run whose model_dir is `directory`, as its tasks told of it last (summary/live_run.h): its
// tasks with their replicas, the seconds of their last steps by activity, and the lines of their
// logs. null where no task has told anything. `now` is Unix time.
nlohmann::json live_json(FileSystem& files, const std::string& directory, double now);

// What the tasks of the last run in `directory` were started with and how they ended, for
// run_facts.h: a list of {task, command, version, host, started, end, error, exit_code}.
nlohmann::json starts_json(FileSystem& files, const std::string& directory);

}  // namespace muster::inline v0_1::board
