#include "muster/parallel/autocast.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// LibTorch 2.4 has one function for all kinds of devices in place of one for each; newer versions
// deprecate the old ones. An unqualified call finds whichever there is.
using namespace at::autocast;  // NOLINT(google-build-using-namespace)

struct Setting {
  bool on = false;
  DType dtype = kFloat32;
};

template <typename Kind>
Setting setting_of(Kind kind) {
  if constexpr (requires { is_autocast_enabled(kind); }) {
    return {is_autocast_enabled(kind), get_autocast_dtype(kind)};
  } else if (kind == at::kCUDA) {
    return {at::autocast::is_enabled(), at::autocast::get_autocast_gpu_dtype()};
  } else {
    return {at::autocast::is_cpu_enabled(), at::autocast::get_autocast_cpu_dtype()};
  }
}

template <typename Kind>
void set(Kind kind, const Setting& setting) {
  if constexpr (requires { set_autocast_enabled(kind, true); }) {
    set_autocast_enabled(kind, setting.on);
    set_autocast_dtype(kind, setting.dtype);
  } else if (kind == at::kCUDA) {
    at::autocast::set_enabled(setting.on);
    at::autocast::set_autocast_gpu_dtype(setting.dtype);
  } else {
    at::autocast::set_cpu_enabled(setting.on);
    at::autocast::set_autocast_cpu_dtype(setting.dtype);
  }
}

bool checked_gpu(Device device, DType dtype) {
  if (!device.is_cpu() && !device.is_cuda()) {
    throw invalid_argument("not supported: Autocast on " + device.str(),
                           "use it on the CPU or a CUDA device");
  }
  if (dtype == kBFloat16 || (dtype == at::kHalf && device.is_cuda())) return device.is_cuda();
  throw invalid_argument(
      fmt::format("not supported: Autocast to {} on {}", dtype_name(dtype), device.str()),
      device.is_cpu() ? "use bfloat16, which needs no loss scaling" : "use bfloat16 or float16");
}

at::DeviceType kind_of(bool gpu) { return gpu ? at::kCUDA : at::kCPU; }

}  // namespace

Autocast::Autocast(Device device, DType dtype)
    : on_gpu_(checked_gpu(device, dtype)),
      was_on_(setting_of(kind_of(on_gpu_)).on),
      dtype_before_(setting_of(kind_of(on_gpu_)).dtype) {
  at::autocast::increment_nesting();
  set(kind_of(on_gpu_), {true, dtype});
}

Autocast::~Autocast() {
  set(kind_of(on_gpu_), {was_on_, dtype_before_});
  // The outermost drops the copies of weights in 16 bits.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

}  // namespace muster::inline v0_1
