// What the folder of a run holds besides its events: checkpoints, exports with the commands that
// use them, evaluations, and how the run ended. Thread safety: pure functions of the files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::board {

// Returns {"directory", "checkpoints": [{"name", "step", "bytes", "saved", "newest"}],
// "exports": [{"name", "path", "versions", "newest", "commands"}], "end": {"reason",
// "global_step"} or null, "evaluations": the entries of evaluations.jsonl, "commands": [...],
// "report": null, or {"text": that of report/report.md, "tables": {name: text of a CSV file next to
// it}}}. Sizes are bytes, times Unix seconds. At most 200
// checkpoints, exports and evaluations, the newest ones. A file that cannot be read or is damaged
// is left out.
nlohmann::json run_facts(FileSystem& files, const std::string& directory);

// A word of a command line, in quotes where a shell needs them.
std::string shell_word(const std::string& text);

}  // namespace muster::inline v0_1::board
