// The input of a training run: how many examples a step takes, and where it continues. Thread
// safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "muster/data/dataset.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/replica_input.h"
#include "muster/train/engine.h"

namespace muster::inline v0_1::internal {

// How many examples a step of the given number of batches has over all replicas, as the pipeline
// describes its batches; 0 if it does not say.
int64_t examples_of_step(const Dataset& dataset, const distribute::Replica& replica,
                         int64_t batches);

// The input continues after the last example on which the checkpoint that `engine` has found was
// trained, or from its beginning with `restart`. The chief's log says where. Throws the errors of
// ReplicaInput::restore(), with what the user can do. It does not throw for a checkpoint of step 0,
// for which nothing was read: another input then begins at its beginning.
void continue_input(const Engine& engine, distribute::ReplicaInput& input, bool restart,
                    int64_t examples_of_step);

// The pass that follows the one in which the checkpoint `engine` has found was saved.
int64_t next_pass(const Engine& engine);

// Says on the chief which checkpoint the run continues from, and where.
void tell_restored(const Engine& engine, distribute::ReplicaInput& input);

// The input continues at `position`, the worker's iterator state among workers that train at their
// own pace. Throws the errors of Iterator::restore(), with what the user can do.
void continue_at(const Engine& engine, distribute::ReplicaInput& input,
                 const std::string& position);

// The position of the input, as a checkpoint holds it. All replicas call it together.
nlohmann::json positions_of(distribute::ReplicaInput& input, int64_t examples_of_step);

}  // namespace muster::inline v0_1::internal
