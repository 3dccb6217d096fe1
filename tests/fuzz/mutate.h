// Makes inputs for fuzz targets out of seeds. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::fuzz {

// Input `index` of a target: a seed with some damage done to it (bits and bytes changed, pieces cut
// out, doubled or taken from another seed, ends cut off, numbers set to values that break
// arithmetic), a pure function of all arguments. The first seeds.size() inputs are the seeds
// themselves.
std::string make_input(const std::vector<std::string>& seeds, const std::string& target,
                       uint64_t index);

}  // namespace muster::fuzz
