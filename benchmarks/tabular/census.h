// A wide and deep model of the census of 1994, as examples/census has it, on rows in memory.
// Thread safety: one call in a process.
#pragma once

#include <cstdint>
#include <string>

namespace muster::bench {

inline constexpr int64_t kCensusBatch = 128;

// Takes part until the end. `path` is the CSV file with a header that the model learns from.
void train_on_census(const std::string& path);

}  // namespace muster::bench
