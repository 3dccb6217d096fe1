#include "muster/tensor/async_scalar.h"

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <optional>
#include <thread>
#include <utility>

#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

struct AsyncScalar::Copied {
  Tensor here;
  std::optional<c10::Event> event;  // none: `here` is on a device that records operations
};

AsyncScalar::AsyncScalar(const Tensor& number) {
  const Device device = number.device();
  if (device.is_cpu()) {
    // Of every step of training: item() goes through the dispatcher.
    const bool plain = number.scalar_type() == kFloat32 && !number.is_neg() && number.numel() == 1;
    number_ = plain ? *number.data_ptr<float>() : number.item<double>();
    return;
  }
  const torch::NoGradGuard no_grad;
  const Tensor one = number.detach().reshape({});
  if (device.is_xla()) {
    // A copy now would run the forward pass alone, and the step would compute it again.
    copied_ = std::make_unique<Copied>(Copied{one, std::nullopt});
    return;
  }
  // Only a copy to pinned memory does not wait.
  Tensor here = at::empty({}, at::dtype(one.scalar_type()).pinned_memory(device.is_cuda()));
  here.copy_(one, /*non_blocking=*/true);
  copied_ = std::make_unique<Copied>(Copied{std::move(here), c10::Event(device.type())});
  copied_->event->record(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
}

AsyncScalar::~AsyncScalar() = default;
AsyncScalar::AsyncScalar(AsyncScalar&&) noexcept = default;
AsyncScalar& AsyncScalar::operator=(AsyncScalar&&) noexcept = default;

double AsyncScalar::value() const {
  // A device's computation ends by itself; it is polled as LibTorch waits for it, without sleeping.
  if (!copied_) return number_;
  if (!copied_->event) {
    run_recorded(copied_->here.device());
    return copied_->here.item<double>();
  }
  while (!copied_->event->query()) std::this_thread::yield();
  return copied_->here.item<double>();
}

}  // namespace muster::inline v0_1
