// The positions of the workers of a loop on parameter servers, as a checkpoint holds them. Thread
// safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace muster::inline v0_1::distribute {

// The positions of a worker's data sets as text, as the ledger keeps it; and the way back, which
// returns an empty array for "" and for text that no loop has written.
std::string to_position(const nlohmann::json& data);
nlohmann::json data_of(const std::string& position);

// Where each of `workers` begins, by rank; empty: all at the beginning. `inputs` are the positions
// in the checkpoint called `prefix`, of a loop on servers or of one in step; an Estimator's input
// does not belong to a loop. Throws InvalidArgument for positions of another number of workers,
// which have read data of their own.
std::vector<std::string> positions_of_loop(const nlohmann::json& inputs, int workers,
                                           const std::string& prefix);

}  // namespace muster::inline v0_1::distribute
