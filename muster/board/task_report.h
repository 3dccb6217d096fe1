// The tasks of a run for a report: where their time went, which one the others waited for, and,
// where `muster run --report` started them, how often each was started and how it ended.
// Thread safety: pure functions of the files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::board {

// Returns live_json() of the model_dir `directory`, with "launch": what launch/run_record.h has
// written there, or null. "straggler" is the slow task of the last steps, also of tasks that have
// ended. null where neither tasks nor a launcher have written anything.
nlohmann::json task_report_json(FileSystem& files, const std::string& directory);

}  // namespace muster::inline v0_1::board
