#include "tests/support/internal/host_call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "tests/support/internal/test_device_runtime.h"

namespace muster::inline v0_1::testing {

using at::Tensor;
using c10::Device;
using c10::IValue;
using c10::Storage;

IValue HostCall::to_host(const IValue& value, bool written) {
  if (value.isTensor()) return to_host(value.toTensor(), written);
  if (value.isStorage()) {
    note(value.toStorage().device());
    return to_host(value.toStorage());
  }
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(to_host(tensor, written));
    return list;
  }
  // Only the tensors that index another come in such lists.
  if (value.isOptionalTensorList()) {
    c10::List<c10::optional<Tensor>> list;
    for (const IValue& element : value.toListRef()) {
      list.push_back(c10::nullopt);
      if (element.isTensor()) list.set(list.size() - 1, to_host(element.toTensor(), false, true));
    }
    return list;
  }
  if (value.isDevice()) {
    asked_ = value.toDevice();
    if (asked_->type() == kTestDevice) asked_ = checked_device(*asked_);
    return Device(c10::kCPU);
  }
  TORCH_CHECK(!value.isGenerator(), "Expected a '", kTestDevice,
              "' device type for generator but found 'cpu'");
  return value;
}

Tensor HostCall::to_host(const Tensor& tensor, bool written, bool index) {
  if (!tensor.defined()) return tensor;
  if (tensor.device().type() != kTestDevice) {
    // A GPU too takes a number, or an index, from the host.
    const bool taken = tensor.is_cpu() && (index || (tensor.dim() == 0 && !written));
    if (!taken) note(tensor.device());
    return tensor;
  }
  note(tensor.device());
  for (const auto& [original, host] : tensors_) {
    if (original.is_same(tensor)) return host;
  }
  Tensor host = at::detail::make_tensor<c10::TensorImpl>(
      to_host(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* const implementation = host.unsafeGetTensorImpl();
  implementation->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) implementation->set_wrapped_number(true);
  tensors_.emplace_back(tensor, host);
  return host;
}

Device HostCall::device() const {
  TORCH_CHECK(!device_ || !other_,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              *device_, " and ", *other_, "!");
  const auto device = device_ ? device_ : asked_;
  return device && device->type() == kTestDevice ? *device : current_test_device();
}

void HostCall::write_back() {
  for (auto& [original, host] : storages_) {
    auto* const to = original.unsafeGetStorageImpl();
    auto* const from = host.unsafeGetStorageImpl();
    if (to->data_ptr().get() == from->data_ptr().get()) continue;
    to->set_data_ptr_noswap(from->set_data_ptr(c10::DataPtr(nullptr, c10::kCPU)));
    to->set_nbytes(from->nbytes());
  }
  for (const auto& [original, host] : tensors_) {
    for (const auto& [storage, seen] : storages_) {
      if (seen.is_alias_of(host.storage()) && !storage.is_alias_of(original.storage())) {
        original.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
      }
    }
    if (original.sizes() != host.sizes() || original.strides() != host.strides() ||
        original.storage_offset() != host.storage_offset()) {
      original.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                            host.storage_offset());
    }
  }
}

IValue HostCall::from_host(const IValue& value) const {
  if (value.isTensor()) return from_host(value.toTensor());
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(from_host(tensor));
    return list;
  }
  return value;
}

Tensor HostCall::from_host(const Tensor& host) const {
  if (!host.defined()) return host;
  for (const auto& [original, argument] : tensors_) {
    if (argument.is_same(host)) return original;
  }
  for (const auto& [original, argument] : tensors_) {
    if (!argument.storage().is_alias_of(host.storage())) continue;
    Tensor view = at::detail::make_tensor<c10::TensorImpl>(
        c10::TensorImpl::VIEW, Storage(original.storage()), original.key_set(), host.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides(),
                                                      host.storage_offset());
    return view;
  }
  if (asked_ && asked_->type() != kTestDevice) return host;
  const c10::DeviceGuard guard(asked_ ? *asked_ : device());
  const Tensor result =
      at::detail::empty_strided_generic(host.sizes(), host.strides(), &test_allocator(),
                                        c10::DispatchKeySet(kTestKey), host.scalar_type());
  if (result.nbytes() == 0) return result;
  std::memcpy(result.data_ptr(), host.data_ptr(),
              at::detail::computeStorageNbytes(host.sizes(), host.strides(), host.itemsize()));
  return result;
}

void HostCall::note(Device device) {
  auto& place = device.type() == kTestDevice && !device_ ? device_ : other_;
  if (device != device_ && !place) place = device;
}

Storage HostCall::to_host(const Storage& storage) {
  if (storage.device().type() != kTestDevice) return storage;
  for (const auto& [original, host] : storages_) {
    if (original.is_alias_of(storage)) return host;
  }
  // Keeps the device's memory; memory that the operation adds comes from the device's allocator.
  Storage host(Storage::use_byte_size_t(), storage.nbytes(),
               c10::DataPtr(
                   storage.data_ptr().get(), new Storage(storage),
                   [](void* kept) { delete static_cast<Storage*>(kept); }, c10::kCPU),
               &test_allocator(), /*resizable=*/true);
  storages_.emplace_back(storage, host);
  return host;
}

}  // namespace muster::inline v0_1::testing
