// Turns the hyper-parameters of a search into values for its trials. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/jobs/job_spec.h"

namespace muster::inline v0_1::jobs {

// The values of one trial, as the flags have them: {"learning_rate", "0.01"}.
using TrialValues = std::map<std::string, std::string>;

// Throws InvalidArgument, naming the parameter, for a search without parameters, a name twice, an
// empty or upside-down range, a range of a logarithmic scale that is not above 0, a list without
// values, and a grid over doubles, which has no end.
void check_search(const HyperParameterSearch& search);

// Returns the value at `share` in [0, 1) of the way through the parameter, as text. With u = share,
// a double is
//   min + u (max - min)                    linear, and without scale
//   min (max / min)^u                      logarithmic
//   min + max - min (max / min)^(1 - u)    reverse logarithmic
// an integer is the value in the range [min, max + 1) rounded down, and of lists each value is as
// likely as the others.
std::string value_at(const HyperParameter& parameter, double share);

// Draws all values, one random number for each.
TrialValues draw_values(const HyperParameterSearch& search, RandomKey key);

// The number of different trials that there can be; 0 if a double makes them countless, and at most
// 1,000,000,000.
int64_t count_points(const HyperParameterSearch& search);
// Returns point `index` of the grid of all trials, the last parameter changing fastest. Index is
// below count_points().
TrialValues grid_point(const HyperParameterSearch& search, int64_t index);

}  // namespace muster::inline v0_1::jobs
