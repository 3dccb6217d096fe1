// The error for an unknown name, with the same text everywhere. Thread safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns InvalidArgument "the Estimator has no parameter 'rat'; it has 'rate', 'units'" for
// `owner` "the Estimator", `kind` "parameter", `name` "rat" and `known`, the existing names. Its
// hint proposes the nearest of them, or is `otherwise` if none is near.
MUSTER_PART_EXPORT Error unknown_name(const std::string& owner, const std::string& kind,
                                      const std::string& name,
                                      const std::vector<std::string>& known,
                                      const std::string& otherwise = {});

}  // namespace muster::inline v0_1
