// Where workers that train at their own pace begin in their data, as a checkpoint says it.
// Thread safety: a pure function.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace muster::inline v0_1::internal {

// The position of each of `workers`, as its iterator restores it; "" is the beginning. `train` is
// the result of ReplicaInput::save() or of a run on servers; `prefix` is the checkpoint's name in
// messages. Throws InvalidArgument if it holds the positions of another number of workers.
std::vector<std::string> positions_of_workers(const nlohmann::json& train, int workers,
                                              const std::string& prefix);

}  // namespace muster::inline v0_1::internal
