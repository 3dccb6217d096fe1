// All scenarios. Thread safety: a pure function.
#pragma once

#include <memory>
#include <vector>

#include "apps/sim/simulation.h"

namespace muster::sim {

std::vector<std::unique_ptr<Scenario>> all_scenarios();

}  // namespace muster::sim
