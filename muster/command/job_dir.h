// The directory of this program's job, from its flags. Thread safety: any thread.
#pragma once

#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::command {

// run_main() calls it with the value of --model_dir, or --job-dir, or their default.
void set_job_dir(std::string directory);
// The directory; empty if the program has no such flag, or no run_main().
MUSTER_PART_EXPORT std::string job_dir();

}  // namespace muster::inline v0_1::command
