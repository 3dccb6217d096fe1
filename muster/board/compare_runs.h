// Compares the scalars of two runs: where they part, and where they end. Thread safety: pure
// functions.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "muster/board/run_data.h"

namespace muster::inline v0_1::board {

// Returns for each tag of both [{"tag", "steps" that both have, "parts_at": the first of them at
// which the values are not the same bits, null if there is none, "a", "b": the values there (or at
// the last step that both have), "last_a", "last_b": the last values, "last_step_a",
// "last_step_b"}]. Where a run has several points of one step, the last counts. Values that are not
// finite are texts: "NaN", "Infinity", "-Infinity".
nlohmann::json compare_json(const ScalarPoints& a, const ScalarPoints& b);

}  // namespace muster::inline v0_1::board
