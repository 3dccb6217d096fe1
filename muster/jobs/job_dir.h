// Faults of a job directory, found before anything is started. Thread safety: free functions.
#pragma once

#include <string>

namespace muster::inline v0_1::jobs {

// Throws InvalidArgument for "s3:bucket/x" and "s3:/bucket/x", which lack slashes and would be
// taken for a folder of this machine; `what` names the path ("the job directory"). "./s3:x" is such
// a folder.
void check_slashes(const std::string& what, const std::string& path);

// Throws InvalidArgument if a file is in the way of the job directory. URIs of stores are not
// looked at. With `writes_here` a program of this machine shall write there: it throws also if this
// account may neither write in the directory nor make it. Nothing is made.
void check_place(const std::string& job_dir, bool writes_here);

}  // namespace muster::inline v0_1::jobs
