// Where this program's job keeps its files, as its flags said. Thread safety: any thread.
#pragma once

#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::command {

// run_main() calls it with what --model_dir, or --job-dir, was given, or their default.
void set_job_dir(std::string directory);
// That directory; empty where the program has no such flag, or no run_main().
MUSTER_PART_EXPORT std::string job_dir();

}  // namespace muster::inline v0_1::command
