// Whether two jobs are of the same command, however it was written. Thread safety: free functions;
// links of the file system are followed.
#pragma once

#include <string>

#include "muster/jobs/job_record.h"

namespace muster::inline v0_1::jobs {

// The whole path of a directory of this machine, without "." and ".."; a URI unchanged, without a
// slash at its end.
std::string plain_dir(const std::string& job_dir);

// Whether the job has that job directory, also if a link leads to it. A job without a directory
// shares none.
bool same_dir(const JobRecord& record, const std::string& job_dir);

// Whether both have the same target, run the same commands, and have the same job directory or
// none.
bool same_job(const JobRecord& one, const JobRecord& other);

// How the existing job differs from the one that wants its name, in words: "it has --epochs=2 where
// this one has --epochs=3"; empty if they are the same.
std::string difference(const JobRecord& there, const JobRecord& wanted);

}  // namespace muster::inline v0_1::jobs
