// The devices of XLA, by torch_xla: a Python package whose extension registers the device type
// "xla" with LibTorch's dispatcher. Operations go there without Python; Python is called once a
// step, to run what was recorded.
#pragma once

#include <memory>
#include <string>

#include "muster/tensor/device_library.h"
#include "muster/xla/python_installation.h"

namespace muster::inline v0_1::xla {

// Starts the Python of the installation in this process and imports its packages, which takes
// seconds. REQUIRES: check_packages() accepts it. Throws std::runtime_error with Python's message.
std::unique_ptr<DeviceLibrary> make_xla_devices(const PythonInstallation& python);

}  // namespace muster::inline v0_1::xla
