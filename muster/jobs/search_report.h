// What a search found, for people: a table, and a picture. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/jobs/search.h"

namespace muster::inline v0_1::jobs {

// A line for each trial, the best first: its number, values, best measurement and the step of that,
// how many measurements there are, and how it ended. Why it failed is said of the first that failed
// so, is cut where the line would have more than 120 letters, and is left out where
// Search::gave_up() says it.
std::string search_table(const Search& search);

// What a search is about to do, in lines that begin with '#': how many trials there are and how
// many at a time, what is compared, how values are chosen and who is stopped early, and the range
// of each hyper-parameter.
std::string search_plan(const Search& search);

// An SVG picture of parallel axes: one for each hyper-parameter and one for the metric, and a line
// across them for each trial, the best one on top.
std::string search_picture(const Search& search);

}  // namespace muster::inline v0_1::jobs
