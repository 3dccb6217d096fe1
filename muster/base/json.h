// Parses JSON text, with errors that show the place. Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "muster/base/export.h"
#include "muster/base/result.h"

namespace muster::inline v0_1 {

// Parses `text`; `what` is its name in errors ("TF_CONFIG", a path). Stricter than most readers: a
// key that occurs twice in one object, and nesting deeper than 200, are errors. The error has kind
// `kind`, the line and column (both from 1, columns in bytes) and the text around the place.
MUSTER_PART_EXPORT Result<nlohmann::json> parse_json(std::string_view text, std::string_view what,
                                                     ErrorKind kind = ErrorKind::kInvalidArgument);

}  // namespace muster::inline v0_1
