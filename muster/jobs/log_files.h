// The lines of log files that other processes write. Thread safety: one call at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

// A file, and the prefix of each of its lines.
struct LogFile {
  std::string path{};
  std::string prefix = {};  // "[worker-0] "
};

// Passes on the lines of the files, of each its last `options.tail` if that is set. With
// `options.follow` it continues with new lines, until `ended()` holds and all is passed on, or
// options.interrupted() does. A file that does not exist yet has no lines; one that is emptied
// meanwhile is read from its beginning. Throws the errors of reading.
void read_logs(const std::vector<LogFile>& files, const LogOptions& options,
               const std::function<bool()>& ended, const LogSink& sink);

}  // namespace muster::inline v0_1::jobs
