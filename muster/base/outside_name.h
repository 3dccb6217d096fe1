// Names that come from outside become paths here: from listings of stores, from tables in files,
// from peers. Their author may have meant a place outside the folder that should contain them.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster::inline v0_1 {

// Says why `name` cannot be a name in a folder: "is empty", "holds a slash", "leads out of its
// folder" for "." and "..", "holds a zero byte". "" if it can.
std::string fault_of_name(std::string_view name);

// Says why `path` does not name something in a folder or below: "is absolute", "has the scheme
// 's3'", "leads out of its folder", "has an empty part", "holds a zero byte". "" when it does.
std::string fault_of_path(std::string_view path);

// Returns the path of `path` in `directory`, or below. Returns Corrupt if fault_of_path() finds a
// fault; `source` names the author of the path: "the state file 'run/checkpoint'".
Result<std::string> path_inside(std::string_view directory, std::string_view path,
                                const std::string& source);

}  // namespace muster::inline v0_1
