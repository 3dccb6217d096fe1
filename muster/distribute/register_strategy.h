// Strategies that parts of Muster above this one have, for strategy_by_name().
// Thread safety: all calls from any thread.
#pragma once

#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {

// From now on strategy_by_name(name) returns the result of `make`. A part calls it when the program
// starts.
MUSTER_PART_EXPORT void register_strategy(const std::string& name,
                                          std::function<StrategyPtr()> make);

}  // namespace muster::inline v0_1::distribute
