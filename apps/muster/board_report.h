// The report that commands with --report write after their work, as `muster board DIR
// --report=FILE` does: muster-board makes it. Thread safety: any thread.
#pragma once

#include <string>

namespace muster::app {

// Throws NotFound if muster-board is not installed, or the folder of `file` does not exist: before
// the work, not after it.
void check_board_report(const std::string& file);

// Writes the runs below `directory` into `file`. A report that cannot be written is a warning, with
// the command that tries it again, because the work itself is done. Returns whether it was written.
bool write_board_report(const std::string& directory, const std::string& file);

}  // namespace muster::app
