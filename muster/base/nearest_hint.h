// The hint of an error about a name that nothing has. Thread safety: a pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// "did you mean 'rate'?" if one of `known` is nearest() to `name`, else `otherwise`.
MUSTER_PART_EXPORT std::string nearest_hint(std::string_view name,
                                            const std::vector<std::string>& known,
                                            const std::string& otherwise);

}  // namespace muster::inline v0_1
