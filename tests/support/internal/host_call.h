// How a test device carries out an operation: the host does it, over the device's memory.
// Thread safety: a call belongs to one thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <optional>
#include <utility>
#include <vector>

namespace muster::inline v0_1::testing {

// One operation: its tensors as the host sees them, and the way back.
class HostCall {
 public:
  // The host's version of an argument; `written` if the operation writes into it.
  c10::IValue to_host(const c10::IValue& value, bool written);
  // `index` for a tensor that indexes another.
  at::Tensor to_host(const at::Tensor& tensor, bool written, bool index = false);

  // Where the operation runs. Throws c10::Error for calls that a GPU refuses: tensors on several
  // devices.
  c10::Device device() const;

  // Gives the arguments the sizes and the memory, be it grown or another's, that they now have.
  void write_back();

  // The caller's version of a result.
  c10::IValue from_host(const c10::IValue& value) const;
  at::Tensor from_host(const at::Tensor& host) const;

 private:
  // Takes note of the device of an argument.
  void note(c10::Device device);
  c10::Storage to_host(const c10::Storage& storage);

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;
  std::optional<c10::Device> device_, other_, asked_;
};

}  // namespace muster::inline v0_1::testing
