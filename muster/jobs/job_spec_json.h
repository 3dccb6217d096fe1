// A JobSpec as JSON and back, for processes of one job that hand it to each other: a file of the
// job's folder, of which readers and writers are of one version. Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// Returns the text, with indented lines and a line end.
std::string to_json_text(const JobSpec& job);
// `name` is the file's, for errors. Throws Corrupt for text that to_json_text() did not write.
JobSpec job_spec_from_json(std::string_view text, const std::string& name);

}  // namespace muster::inline v0_1::jobs
