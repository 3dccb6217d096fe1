// The report that a task leaves when a run of several tasks fails: formats/failure_report.h.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/error.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1::internal {

// Writes model_dir/failures/<task>.json, over that of an earlier failure; nothing in a bucket.
// `step` is the last one that the task has made. A report that cannot be written is a warning.
void report_failure(const TrainerOptions& options, const std::string& task, int64_t step,
                    const Error& error) noexcept;

}  // namespace muster::inline v0_1::internal
