#include "tests/support/test_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <utility>
#include <vector>

#include "tests/support/internal/host_call.h"
#include "tests/support/internal/test_device_runtime.h"

namespace muster::inline v0_1::testing {
namespace {

using at::Tensor;
using c10::Device;
using c10::IValue;
using c10::Stream;
using torch::jit::Stack;

// Runs `op`, whose arguments are on the stack, on the host.
void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  const auto& schema = op.schema();
  HostCall call;
  bool view = false;
  const size_t first = stack->size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* const alias = schema.arguments()[i].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    view |= alias != nullptr && !written;
    IValue& value = (*stack)[first + i];
    value = call.to_host(value, written);
  }
  const c10::DeviceGuard guard(call.device());
  // A view reads nothing: it may be taken of a tensor that is still to be copied.
  if (!view) catch_up(call.device());
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  call.write_back();
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = call.from_host((*stack)[i]);
  }
}

void run_on_host_as(const char* name, Stack* stack) {
  run_on_host(c10::Dispatcher::singleton().findSchemaOrThrow(name, ""), stack);
}

void convolution(const c10::OperatorHandle&, Stack* stack) {
  run_on_host_as("aten::convolution", stack);
}

void convolution_backward(const c10::OperatorHandle& op, Stack* stack) {
  const auto arguments = stack->end() - static_cast<int64_t>(op.schema().arguments().size());
  const int64_t channels = arguments[0].toTensor().size(1);
  // The host's version also asks for the size of the bias.
  stack->insert(arguments + 3, IValue(std::vector<int64_t>{channels}));
  run_on_host_as("aten::convolution_backward", stack);
}

// --- operations of the device itself ---

template <typename T>
using Maybe = c10::optional<T>;

Tensor empty(at::IntArrayRef size, Maybe<at::ScalarType> dtype, Maybe<at::Layout>,
             Maybe<Device> device, Maybe<bool>, Maybe<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(checked_device(device.value_or(Device(kTestDevice))));
  return at::detail::empty_generic(size, &test_allocator(), c10::DispatchKeySet(kTestKey),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, Maybe<at::ScalarType> dtype,
                     Maybe<at::Layout>, Maybe<Device> device, Maybe<bool>) {
  const c10::DeviceGuard guard(checked_device(device.value_or(Device(kTestDevice))));
  return at::detail::empty_strided_generic(
      size, stride, &test_allocator(), c10::DispatchKeySet(kTestKey), c10::dtype_or_default(dtype));
}

// From, to, or between devices.
Tensor copy_from(const Tensor& source, const Tensor& destination, bool non_blocking) {
  // Two calls, because the two may be on different devices.
  const Tensor to = HostCall().to_host(destination, /*written=*/true);
  const Tensor from = HostCall().to_host(source, /*written=*/false);
  TORCH_CHECK(to.is_cpu() && from.is_cpu(), "no copy from ", source.device(), " to ",
              destination.device());
  auto copy = [to, from = from.expand(to.sizes())] {
    const at::AutoDispatchBelowADInplaceOrView below;
    to.copy_(from);
  };
  const Device device = destination.is_cpu() ? source.device() : destination.device();
  const bool of_two_devices = !source.is_cpu() && source.device() != device;
  const Stream stream = current_test_stream(device);
  if (non_blocking && !of_two_devices && stream.id() != 0) {
    queue_work(stream, std::move(copy));
    return destination;
  }
  catch_up(device);
  if (of_two_devices) catch_up(source.device());
  copy();
  return destination;
}

// A variable may move between host and device in place, as one of CUDA may.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
  const auto dense = [](const Tensor& tensor) {
    return tensor.layout() == at::kStrided &&
           (tensor.is_cpu() || tensor.device().type() == kTestDevice);
  };
  return dense(self) && dense(from);
}

void record_stream(Tensor&, Stream) {}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
  library.impl("record_stream", TORCH_FN(record_stream));
  // LibTorch would compose these of others, in other roundings than the host's.
  for (const char* name :
       {"addr", "mish_backward", "native_group_norm", "native_layer_norm", "silu_backward"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
  }
  library.impl("convolution_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&convolution>());
  library.impl("convolution_backward_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

// With a kernel of its own for the device the operation is no longer composed, and needs one here.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
  library.impl("_has_compatible_shallow_copy_type", torch::CppFunction::makeFallthrough());
}

}  // namespace

Device test_device(int index) {
  TORCH_CHECK(index >= 0 && index < kTestDevices, "there is no test device ", index);
  return Device(kTestDevice, static_cast<c10::DeviceIndex>(index));
}

}  // namespace muster::inline v0_1::testing
