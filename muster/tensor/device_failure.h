// Errors of a device that fails during a run, such as a chip that is taken away. Thread safety:
// pure functions.
#pragma once

#include <exception>
#include <optional>

#include "muster/base/error.h"
#include "muster/tensor/device.h"

namespace muster::inline v0_1 {

// Returns the error for an exception by which the library of a device of XLA reports that the
// device failed: "xla:0 failed: UNAVAILABLE: ...". It is Unavailable, so that launchers start the
// task again; it is Internal, with a hint, if the memory of the device was too small. An Error that
// this function made before is returned as it is. Returns nullopt for other exceptions, and for
// other devices.
std::optional<Error> device_failure(Device device, const std::exception& exception);

}  // namespace muster::inline v0_1
