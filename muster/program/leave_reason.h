// The places where launchers look for the reason of a failure, besides the log. Thread safety: one
// call in the end of a process.
#pragma once

#include "muster/base/environment.h"
#include "muster/base/error.h"

namespace muster::inline v0_1 {

// Writes the error to the file that a launcher names, if there is one:
//   torchrun     TORCHELASTIC_ERROR_FILE, the JSON that its summary of failures shows
//   SageMaker    "failure" in SM_OUTPUT_DIR, or in /opt/ml/output, of whose text it shows 1024
//   bytes Kubernetes   /dev/termination-log, which `kubectl describe pod` shows
// A file that cannot be written is skipped.
void leave_reason(const Error& error, const Environment& environment) noexcept;

}  // namespace muster::inline v0_1
