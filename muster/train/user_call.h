// What a function of the user's throws, told with where that was: model functions and those of
// Strategy::run() say it alike. Thread safety: pure functions.
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
// it after its message. What LibTorch threw becomes "<what> failed <where>: ...", InvalidArgument
// with what `hint` makes of LibTorch's words, or Internal when memory ran out or the machine
// failed. Any other passes as it is, for the caller may catch its own types; the log says where it
// was.
[[noreturn]] MUSTER_PART_EXPORT void rethrow_with_place(
    std::string_view what, const std::string& where,
    const std::function<std::string(const std::string& said)>& hint);

// Gives " on worker 1, replica 3" for a replica among others, "" for one that is alone.
MUSTER_PART_EXPORT std::string on_replica(const distribute::ReplicaPlace& place);

// Gives what to do where LibTorch complains of tensors on other devices than `device`.
std::optional<std::string> hint_of_mixed_devices(const std::string& said, Device device);

}  // namespace muster::inline v0_1
