// Reads the record of used examples that a run has left in its model_dir (RunConfig::audit), and
// shows what it says. Thread safety: pure functions of the files.
#pragma once

#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/formats/audit_segment.h"

namespace muster::app {

// Returns the segments of the record, in the order of their names. Throws NotFound if there is
// none, and Corrupt for a file that is not one.
std::vector<formats::AuditSegment> read_audit(FileSystem& files, const std::string& model_dir);

// What is to be printed, as text or as one JSON document.
std::string show_audit(const formats::Audit& audit, bool json);

}  // namespace muster::app
