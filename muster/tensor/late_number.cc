#include "muster/tensor/late_number.h"

#include <c10/core/Event.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <thread>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

struct LateNumber::Copied {
  c10::Event event;
};

LateNumber::LateNumber(const Tensor& number) {
  const torch::NoGradGuard no_grad;
  const Tensor one = number.detach().reshape({});
  const Device device = one.device();
  if (device.is_cpu()) {
    here_ = one;
    return;
  }
  // Only a copy to pinned memory does not wait.
  here_ = at::empty({}, at::dtype(one.scalar_type()).pinned_memory(device.is_cuda()));
  here_.copy_(one, /*non_blocking=*/true);
  copied_ = std::make_unique<Copied>(Copied{c10::Event(device.type())});
  copied_->event.record(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
}

LateNumber::~LateNumber() = default;
LateNumber::LateNumber(LateNumber&&) noexcept = default;
LateNumber& LateNumber::operator=(LateNumber&&) noexcept = default;

double LateNumber::value() const {
  // What a device computes ends; it is asked as LibTorch waits for it, without sleeping.
  while (copied_ && !copied_->event.query()) std::this_thread::yield();
  return here_.item<double>();
}

}  // namespace muster::inline v0_1
