// Staging files that a killed writer left behind. Thread safety: all calls from any thread; the
// files are locked against other threads and processes.
//
// A live writer holds a lock of the operating system on its staging file, which ends with its
// process, however that ends. So a staging file that can be locked has no live writer. On file
// systems without locks nothing is removed.
#pragma once

#include <string>

namespace muster::inline v0_1 {

// Locks a staging file that was just made and opened as `fd`. Returns false when another process
// has taken it for a leftover: then another name is needed.
bool claim_staging_file(int fd);

// Removes the files "<directory>/<prefix>..." that no live writer holds; files that cannot be
// removed stay. `directory` is a local path.
void remove_staging_leftovers(const std::string& directory, const std::string& prefix);

}  // namespace muster::inline v0_1
