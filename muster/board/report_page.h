// Runs as one HTML file that needs no server and asks nothing of a network: the page of the board
// with the answers that it would get. Thread safety: as BoardApi.
#pragma once

#include <string>

#include "muster/board/board_api.h"
#include "muster/board/run_store.h"

namespace muster::inline v0_1::board {

// Returns the file for what the store has read. Curves are thinned as charts are. Of images and
// sounds it has the last of each tag and run, 32 MiB together at most; of texts the last ten.
// Throws Unavailable in a program that was built without the page.
std::string report_page(BoardApi& api, const RunStore& store);

}  // namespace muster::inline v0_1::board
