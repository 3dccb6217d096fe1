// Distinguishes exporting from computing: while a model is traced, each operation of LibTorch on
// this thread is recorded, and nothing else is. So a value that a loop of ours writes must be made
// apart, or refused. Thread safety: of the calling thread.
#pragma once

#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Whether this thread traces.
MUSTER_PART_EXPORT bool is_tracing();
// Throws InvalidArgument, "not supported: exporting <what>: <why>", while this thread traces.
MUSTER_PART_EXPORT void refuse_tracing(const std::string& what, const std::string& why);

}  // namespace muster::inline v0_1
