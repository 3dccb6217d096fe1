// A word in model_dir that the run of a job has ended, for a chief that is killed right after its
// end and started again: the servers it would wait for are gone. Thread safety: pure functions but
// for the file.
#pragma once

#include <string>

#include "muster/base/file_system.h"

namespace muster::inline v0_1::distribute {

// Nothing is written, and no run has ended, without a model_dir or a job's name. A note that cannot
// be written is not an error: the chief then waits as it would without it.
void note_end_of_run(FileSystem& fs, const std::string& model_dir, const std::string& job);
bool run_has_ended(FileSystem& fs, const std::string& model_dir, const std::string& job);

}  // namespace muster::inline v0_1::distribute
