// The results of a search, for people: a table, and a picture. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/jobs/search.h"

namespace muster::inline v0_1::jobs {

// A line for each trial, the best first: its number, values, best measurement and the step of that,
// how many measurements there are, and how it ended. The reason of a failure is shown for the first
// trial that failed so, is cut if the line would have more than 120 letters, and is left out if
// Search::gave_up() contains it.
std::string search_table(const Search& search);

// The plan of a search, in lines that begin with '#': how many trials there are and how many at a
// time, which metric is compared, how values are chosen and which trials are stopped early, and the
// range of each hyper-parameter.
std::string search_plan(const Search& search);

// An SVG picture of parallel axes: one for each hyper-parameter and one for the metric, and a line
// across them for each trial, the best one on top.
std::string search_picture(const Search& search);

}  // namespace muster::inline v0_1::jobs
