// Looks for a seed that breaks a law, and removes from its faults what the break does not need.
// Thread safety: pure functions; find_failure() starts threads of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/sim/simulation.h"

namespace muster::sim {

// A seed that breaks a law.
struct FailingSeed {
  uint64_t seed = 0;
  std::string law{};            // with all faults of the seed
  std::vector<Fault> faults{};  // all of them
};

// Runs the seeds [first, first + count), `jobs` at a time. Returns the lowest one that breaks a
// law; nothing if none does.
std::optional<FailingSeed> find_failure(const Scenario& scenario, uint64_t first, uint64_t count,
                                        int jobs);

// The fewest faults, of those that removing some at a time finds, with which the seed still breaks
// a law.
std::vector<Fault> shrink(const Scenario& scenario, uint64_t seed, std::vector<Fault> faults);

// The faults, the trace of a run with them, and the law it breaks, as text.
std::string replay(const Scenario& scenario, uint64_t seed, const std::vector<Fault>& faults);

}  // namespace muster::sim
