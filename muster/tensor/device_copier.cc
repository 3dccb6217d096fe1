#include "muster/tensor/device_copier.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>
#include <vector>

#include "muster/tensor/device_library.h"
#include "muster/tensor/host_copy.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

struct DeviceCopier::Streams {
  // The memory of the last batch is not kept after the copier.
  ~Streams() { forget_host_copies(); }

  const c10::impl::DeviceGuardImplInterface* device;
  c10::Stream copies;
};

namespace {

// To wake other threads for a small copy takes longer than to make it.
constexpr size_t kCopiedAlone = 1 << 20;

Tensor pinned(const Tensor& tensor) {
  if (tensor.is_pinned()) return tensor;
  const bool plain = !tensor.is_conj() && !tensor.is_neg();  // or its memory holds other numbers
  if (!plain || tensor.nbytes() > kCopiedAlone) return tensor.pin_memory();
  const Tensor copy = at::empty(tensor.sizes(), tensor.options().pinned_memory(true));
  std::memcpy(copy.data_ptr(), tensor.data_ptr(), tensor.nbytes());
  return copy;
}

Element copied_at_once(const Element& element, Device device) {
  forget_host_copies();
  const torch::NoGradGuard no_grad;
  return element.transform([&](const Value& value) -> Value {
    if (!value.is_tensor() || !value.tensor().defined() || value.tensor().device() == device)
      return value;
    const Tensor here = value.tensor().contiguous();
    const Tensor there = here.to(device);
    shard_rows(there);
    if (here.is_cpu()) note_host_copy(there, here);
    return there;
  });
}

}  // namespace

DeviceCopier::DeviceCopier(Device device) : device_(device) {
  // A device that records operations has no streams.
  if (device.is_cpu() || device.is_xla()) return;
  const auto* guard = c10::impl::getDeviceGuardImpl(device.type());
  streams_ =
      std::make_shared<const Streams>(Streams{guard, guard->getStreamFromGlobalPool(device)});
}

Element DeviceCopier::operator()(const Element& element) const {
  if (device_.is_cpu()) return element;
  if (!streams_) return copied_at_once(element, device_);
  const auto& [device, copies] = *streams_;
  const c10::Stream computes = device->getStream(device_);
  c10::Event copied(device_.type());
  std::vector<Tensor> there;
  forget_host_copies();
  const Element result = [&] {
    const torch::NoGradGuard no_grad;
    const c10::StreamGuard here(streams_->copies);
    Element moved = element.transform([&](const Value& value) -> Value {
      if (!value.is_tensor() || !value.tensor().defined()) return value;
      const Tensor& tensor = value.tensor();
      if (tensor.device() == device_) return value;
      const Tensor here = tensor.contiguous();
      // Only a copy from pinned memory runs next to the program.
      const bool pins = device_.is_cuda() && here.is_cpu() && here.numel() > 0;
      there.push_back((pins ? pinned(here) : here).to(device_, /*non_blocking=*/true));
      if (here.is_cpu()) note_host_copy(there.back(), here);
      return there.back();
    });
    copied.record(streams_->copies);
    return moved;
  }();
  copied.block(computes);
  // Their memory belongs to the stream of the copies, which must not use it again before this
  // stream is done with it.
  for (const Tensor& tensor : there)
    device->recordDataPtrOnStream(tensor.storage().data_ptr(), computes);
  return result;
}

}  // namespace muster::inline v0_1
