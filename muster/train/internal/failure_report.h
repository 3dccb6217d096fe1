// The report that a task leaves when a run of several tasks fails: formats/failure_report.h.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::internal {

// Writes model_dir/failures/<task>.json, over that of an earlier failure; nothing in a bucket, and
// nothing for a task that was asked to stop. `step` is the last one that the task has made. A
// report that cannot be written is a warning. `fs`: nullptr for that of the path.
void report_failure(FileSystem* fs, const std::string& model_dir, const std::string& task,
                    int64_t step, const Error& error) noexcept;

}  // namespace muster::inline v0_1::internal
