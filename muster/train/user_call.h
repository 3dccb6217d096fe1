// Adds the place to an exception of a user's function: model functions and the functions of
// Strategy::run() report it alike. Thread safety: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "muster/base/export.h"
#include "muster/distribute/replica_place.h"
#include "muster/tensor/device.h"

namespace muster::inline v0_1 {

// Throws the exception that is being handled, with `where` ("at step 7 on worker 1"). An Error has
// it after its message. An exception of LibTorch becomes "<what> failed <where>: ...",
// InvalidArgument with the result of `hint` for LibTorch's message, or Internal if memory ran out
// or the machine failed. Any other passes unchanged, because the caller may catch its own types;
// the log says where it was.
[[noreturn]] MUSTER_PART_EXPORT void rethrow_with_place(
    std::string_view what, const std::string& where,
    const std::function<std::string(const std::string& said)>& hint);

// Returns " on worker 1, replica 3" for a replica among others, "" for one that is alone.
MUSTER_PART_EXPORT std::string on_replica(const distribute::ReplicaPlace& place);

// Returns what to do where LibTorch complains of tensors on other devices than `device`.
std::optional<std::string> hint_of_mixed_devices(const std::string& said, Device device);

}  // namespace muster::inline v0_1
