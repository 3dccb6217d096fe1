#include "muster/xla/xla_devices.h"

#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "muster/xla/own_functions.h"
#include "muster/xla/python_interpreter.h"

namespace muster::inline v0_1::xla {
namespace {

constexpr const char* kSource = R"py(
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA warns with each program that it compiles
import torch
import torch_xla
import torch_xla.debug.metrics
import torch_xla.runtime
from torch_xla._internal import tpu

def start():
    # libtpu would wait for a chip that is not there, or end the process.
    if os.environ.get("PJRT_DEVICE") == "TPU" and tpu.num_available_chips() == 0:
        raise ValueError("this machine has no chip of a TPU, and PJRT_DEVICE is TPU\n"
                         "run the program on a TPU VM or in GKE, or set PJRT_DEVICE=CPU")
    # XLA ends the process for another value.
    number = os.environ.get("CPU_NUM_DEVICES", "1")
    if not number.isdecimal() or int(number) == 0:
        raise ValueError(f"CPU_NUM_DEVICES is '{number}'\nset it to the number of devices that XLA makes of the CPU")
    # torch_xla opens it at the first program that it compiles, and ends the process if it cannot.
    cache = os.environ.get("XLA_PERSISTENT_CACHE_PATH")
    if cache:
        try:
            os.makedirs(cache, exist_ok=True)
        except OSError as error:
            raise ValueError(f"XLA_PERSISTENT_CACHE_PATH: {error}\nset it to a folder that can be made") from None
        read_only = os.environ.get("XLA_PERSISTENT_CACHE_READ_ONLY", "0") not in ("0", "false")
        if not read_only and not os.access(cache, os.W_OK | os.X_OK):
            raise ValueError(f"XLA_PERSISTENT_CACHE_PATH is '{cache}', where this process cannot write\n"
                             "set it to a folder in which it can")
    # This makes torch_xla's object of the thread: its current device.
    try:
        torch_xla._XLAC._xla_get_default_device()
    except RuntimeError as error:
        if "No PjRtPlugin registered" not in str(error):
            raise
        raise ValueError(f"PJRT_DEVICE is {os.environ.get('PJRT_DEVICE')}, and torch_xla has no runtime "
                         "of that name\nset PJRT_DEVICE=TPU or PJRT_DEVICE=CPU") from None

def count(_):
    start()
    return torch_xla.runtime.addressable_device_count()

def join(_):
    import numpy
    from torch_xla.distributed import spmd
    torch_xla.runtime.use_spmd()
    start()
    devices = torch_xla.runtime.global_runtime_device_count()
    own = torch_xla.runtime.addressable_runtime_device_count()
    if own != devices:
        raise ValueError(f"the runtime of this process has {devices} chips, and {own} of them are its own\n"
                         "use multi_worker_mirrored() with devices xla on several hosts: docs/tpu.md")
    mesh = spmd.Mesh(numpy.arange(devices), (devices,), ("data",))

    def shard_rows(batch):
        spmd.mark_sharding(batch, mesh, ("data",) + (None,) * (batch.dim() - 1))

    global operations  # they exist as long as this object
    operations = torch.library.Library("muster", "DEF")
    operations.define("shard_rows(Tensor batch) -> ()")
    operations.impl("shard_rows", shard_rows, "XLA")
    return devices

def run_recorded(device):
    # Not waited for: the next read of a tensor waits.
    torch_xla._XLAC._xla_step_marker(f"xla:{device}", [], wait=False, reset_scope=True)

def compilations(_):
    return torch_xla.debug.metrics.counter_value("UncachedCompile") or 0

def runs(_):
    return compilations(_) + (torch_xla.debug.metrics.counter_value("CachedCompile") or 0)

# -1 if the runtime does not know it. A number a call: Python's call returns one.
def memory(packed):
    name = ("bytes_used", "peak_bytes_used", "bytes_limit")[packed & 3]
    try:
        return torch_xla._XLAC._xla_memory_info(f"xla:{packed >> 2}")[name]
    except (RuntimeError, KeyError):
        return -1

def seed(packed):
    torch_xla._XLAC._xla_set_rng_seed(packed >> 8, f"xla:{packed & 255}")
)py";

class XlaDevices final : public DeviceLibrary {
 public:
  explicit XlaDevices(const PythonInstallation& python) : python_(python, kSource) {
    // LibTorch and torch_xla have a copy of oneDNN each, whose functions have the same names. In a
    // program that links LibTorch the dynamic linker takes LibTorch's. Then oneDNN of torch_xla
    // never compiles its matrix products, and computes them in plain loops.
    bind_own_functions("_XLAC", "4dnnl4impl");
  }

  int count() override {
    // It does not change, and core asks for each device that a program names.
    const std::lock_guard lock(starting_);
    if (count_ < 0) count_ = started_by("count");
    return count_;
  }
  int join() override {
    const std::lock_guard lock(starting_);
    if (count_ >= 0) {
      throw std::invalid_argument(
          "the program has named one of the devices before it joined all of them\ncall "
          "distribute::tpu() before one_device(\"xla:0\") and the like");
    }
    const int joined = started_by("join");
    count_ = 1;
    return joined;
  }
  void run_recorded(int device) override { python_.call("run_recorded", device); }
  int64_t compilations() override { return python_.call("compilations"); }
  int64_t runs() override { return python_.call("runs"); }
  void seed(int device, uint64_t seed) override {
    // torch_xla takes a seed of 64 bits with a sign; Python's call takes one number for both.
    python_.call("seed", static_cast<int64_t>(((seed >> 9) << 8) | static_cast<uint64_t>(device)));
  }
  std::optional<DeviceMemory> memory(int device) override {
    std::array<int64_t, 3> bytes{};
    for (int64_t i = 0; i < 3; ++i) {
      bytes[static_cast<size_t>(i)] = python_.call("memory", (int64_t{device} << 2) | i);
      if (bytes[static_cast<size_t>(i)] < 0) return std::nullopt;
    }
    return DeviceMemory{.used = bytes[0], .most = bytes[1], .limit = bytes[2]};
  }

 private:
  int started_by(const char* function) const {
    const auto number = static_cast<int>(python_.call(function));
    python_.run_exit_functions_later();
    return number;
  }

  const PythonInterpreter python_;
  std::mutex starting_;
  int count_ = -1;
};

}  // namespace

std::unique_ptr<DeviceLibrary> make_xla_devices(const PythonInstallation& python) {
  return std::make_unique<XlaDevices>(python);
}

}  // namespace muster::inline v0_1::xla

extern "C" __attribute__((visibility("default"))) muster::DeviceLibrary*
muster_make_device_library_2(const char* libtorch_version) {
  using namespace muster::xla;
  const char* const given = std::getenv("MUSTER_PYTHON");
  const PythonInstallation python =
      ask_python(given != nullptr && *given != '\0' ? given : "python3");
  check_packages(python, libtorch_version);
  return make_xla_devices(python).release();
}
