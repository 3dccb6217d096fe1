// Where the replicas stand in their data, as a checkpoint holds it.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "muster/data/iterator.h"
#include "muster/distribute/session.h"

namespace muster::inline v0_1::distribute {

// What `position`, of this replica's iterator, is over all of them. `by_process`: each process
// reads data of its own, so each has a position; else Muster deals, and one says it all. All
// replicas call it together.
nlohmann::json save_position(Session& session, const nlohmann::json& position, bool by_process);

// Continues there. Throws InvalidArgument when the data is dealt in another way now, when processes
// that read data of their own were not as many, and what Iterator::restore() throws.
void restore_position(const Session& session, Iterator& iterator, const nlohmann::json& state,
                      bool by_process);

}  // namespace muster::inline v0_1::distribute
