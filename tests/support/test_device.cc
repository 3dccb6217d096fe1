#include "tests/support/test_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace muster::inline v0_1::testing {
namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::IValue;
using c10::Storage;
using c10::Stream;
using c10::StreamId;
using torch::jit::Stack;

constexpr c10::DeviceType kTestDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKey kTestKey = c10::DispatchKey::PrivateUse1;
// The default stream is 0; CUDA's pool has as many beside it.
constexpr int kPoolStreams = 32;
constexpr std::align_val_t kAlignment{64};

thread_local DeviceIndex current_device = 0;
thread_local std::array<StreamId, kTestDevices> current_streams{};

Device checked(Device device) {
  if (!device.has_index()) return Device(kTestDevice, current_device);
  TORCH_CHECK(device.type() == kTestDevice && device.index() >= 0 && device.index() < kTestDevices,
              "there is no test device ", device, "; there are ", kTestDevices);
  return device;
}

// --- Memory ---

std::atomic<int> at_work = 0;  // TestDevicesAtWork
std::atomic<int64_t> bytes_in_use = 0;

// A block begins with its own size, in as many bytes as keep what follows aligned.
constexpr size_t kHead = static_cast<size_t>(kAlignment);

void free_block(void* block) {
  size_t size = 0;
  std::memcpy(&size, block, sizeof size);
  bytes_in_use -= static_cast<int64_t>(size);
  ::operator delete(block, kAlignment);
}

// On the current device.
c10::DataPtr allocate_block(size_t size) {
  const Device device(kTestDevice, current_device);
  if (size == 0) return c10::DataPtr(nullptr, device);
  char* block = static_cast<char*>(::operator new(kHead + size, kAlignment));
  std::memcpy(block, &size, sizeof size);
  // As numbers these bytes are NaN: whoever reads what nobody wrote shall see it.
  std::memset(block + kHead, 0xFF, size);
  bytes_in_use += static_cast<int64_t>(size);
  return c10::DataPtr(block + kHead, block, &free_block, device);
}

class TestAllocator final : public c10::Allocator {
 public:
  // LibTorch 2 takes another one of these than 1.13, and has the third.
  c10::DataPtr allocate(size_t size) { return allocate_block(size); }
  c10::DataPtr allocate(size_t size) const { return allocate_block(size); }
  void copy_data(void* to, const void* from, size_t size) const { std::memcpy(to, from, size); }
};

TestAllocator& test_allocator() {
  static auto* allocator = new TestAllocator;
  return *allocator;
}

// --- Streams and events ---

// The work of one stream that nobody has waited for yet.
class WorkQueue {
 public:
  void add(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    ++end_;
  }
  // Work added so far ends here.
  int64_t end() {
    const std::lock_guard lock(mutex_);
    return end_;
  }
  // Carries out the work before `position`; when this returns it is done, whichever thread did it.
  void carry_out(int64_t position = std::numeric_limits<int64_t>::max()) {
    // Outlives the lock: freeing a tensor may run anything.
    std::vector<std::function<void()>> done;
    const std::lock_guard lock(mutex_);
    while (!waiting_.empty() && end_ - static_cast<int64_t>(waiting_.size()) < position) {
      done.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      done.back()();
    }
  }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
  int64_t end_ = 0;
};

WorkQueue& queue_of(const Stream& stream) {
  // Never destroyed: threads may outlast main().
  static auto* queues = new std::array<std::array<WorkQueue, 1 + kPoolStreams>, kTestDevices>;
  return (*queues)[checked(stream.device()).index()].at(stream.id());
}

Stream current_stream(Device device) {
  device = checked(device);
  return Stream(Stream::UNSAFE, device, current_streams[device.index()]);
}

// What was queued on the device's current stream comes before what is now done on it.
void catch_up(Device device) {
  const Stream stream = current_stream(device);
  if (stream.id() != 0) queue_of(stream).carry_out();
}

struct RecordedEvent {
  Stream stream;
  int64_t position;
};

void wait_for(void* event) {
  if (event == nullptr) return;
  const auto& recorded = *static_cast<RecordedEvent*>(event);
  queue_of(recorded.stream).carry_out(recorded.position);
}

class TestGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kTestDevice; }
  DeviceIndex deviceCount() const noexcept override { return kTestDevices; }
  Device getDevice() const override { return Device(kTestDevice, current_device); }
  Device exchangeDevice(Device device) const override {
    const Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  void setDevice(Device device) const override { current_device = checked(device).index(); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) current_device = device.index();
  }

  Stream getStream(Device device) const noexcept override { return current_stream(device); }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::DEFAULT, checked(device));
  }
  Stream getStreamFromGlobalPool(Device device, bool /*is_high_priority*/) const override {
    static std::array<std::atomic<uint32_t>, kTestDevices> next{};
    device = checked(device);
    return Stream(Stream::UNSAFE, device, 1 + next[device.index()]++ % kPoolStreams);
  }
  Stream exchangeStream(Stream stream) const noexcept override {
    const Stream previous = current_stream(stream.device());
    current_streams[previous.device_index()] = stream.id();
    return previous;
  }
  bool queryStream(const Stream& stream) const override {
    queue_of(stream).carry_out();
    return true;
  }
  void synchronizeStream(const Stream& stream) const override { queue_of(stream).carry_out(); }

  void record(void** event, const Stream& stream, const DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    const RecordedEvent recorded{stream, queue_of(stream).end()};
    if (*event == nullptr) {
      *event = new RecordedEvent(recorded);
    } else {
      *static_cast<RecordedEvent*>(*event) = recorded;
    }
  }
  void block(void* event, const Stream& /*stream*/) const override { wait_for(event); }
  bool queryEvent(void* event) const override {
    if (at_work > 0) return false;
    wait_for(event);
    return true;
  }
  void destroyEvent(void* event, const DeviceIndex /*device*/) const noexcept override {
    delete static_cast<RecordedEvent*>(event);
  }
  // LibTorch 2 asks for these, too.
  void synchronizeEvent(void* event) const { wait_for(event); }
  void synchronizeDevice(const DeviceIndex index) const {
    for (StreamId id = 0; id <= kPoolStreams; ++id) {
      queue_of(Stream(Stream::UNSAFE, Device(kTestDevice, index), id)).carry_out();
    }
  }
};

// --- Running an operation on the host, over the device's memory ---

// One operation: its tensors as the host sees them, and the way back.
class HostCall {
 public:
  // What the host is given for an argument.
  IValue to_host(const IValue& value, bool written) {
    if (value.isTensor()) return to_host(value.toTensor(), written);
    if (value.isStorage()) {
      meet(value.toStorage().device());
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
      if (asked_->type() == kTestDevice) asked_ = checked(*asked_);
      return Device(c10::kCPU);
    }
    TORCH_CHECK(!value.isGenerator(), "Expected a '", kTestDevice,
                "' device type for generator but found 'cpu'");
    return value;
  }
  Tensor to_host(const Tensor& tensor, bool written, bool index = false) {
    if (!tensor.defined()) return tensor;
    if (tensor.device().type() != kTestDevice) {
      // A GPU too takes a number, or an index, from the host.
      const bool taken = tensor.is_cpu() && (index || (tensor.dim() == 0 && !written));
      if (!taken) meet(tensor.device());
      return tensor;
    }
    meet(tensor.device());
    for (const auto& [original, host] : tensors_) {
      if (original.is_same(tensor)) return host;
    }
    Tensor host = at::detail::make_tensor<c10::TensorImpl>(
        to_host(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    auto* const implementation = host.unsafeGetTensorImpl();
    implementation->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                          tensor.storage_offset());
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) implementation->set_wrapped_number(true);
    tensors_.emplace_back(tensor, host);
    return host;
  }

  // Where the operation runs; refuses what a GPU refuses.
  Device device() const {
    TORCH_CHECK(!device_ || !other_,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", *other_, "!");
    const auto device = device_ ? device_ : asked_;
    return device && device->type() == kTestDevice ? *device : Device(kTestDevice, current_device);
  }

  // Gives the arguments the sizes and the memory, be it grown or another's, that they now have.
  void write_back() {
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

  // What the caller is given for a result.
  IValue from_host(const IValue& value) const {
    if (value.isTensor()) return from_host(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& tensor : value.toTensorVector()) list.push_back(from_host(tensor));
      return list;
    }
    return value;
  }
  Tensor from_host(const Tensor& host) const {
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

 private:
  void meet(Device device) {
    auto& place = device.type() == kTestDevice && !device_ ? device_ : other_;
    if (device != device_ && !place) place = device;
  }
  Storage to_host(const Storage& storage) {
    if (storage.device().type() != kTestDevice) return storage;
    for (const auto& [original, host] : storages_) {
      if (original.is_alias_of(storage)) return host;
    }
    // Keeps the device's memory; what the operation adds to it comes from the device's allocator.
    Storage host(Storage::use_byte_size_t(), storage.nbytes(),
                 c10::DataPtr(
                     storage.data_ptr().get(), new Storage(storage),
                     [](void* kept) { delete static_cast<Storage*>(kept); }, c10::kCPU),
                 &test_allocator(), /*resizable=*/true);
    storages_.emplace_back(storage, host);
    return host;
  }

  std::vector<std::pair<Tensor, Tensor>> tensors_;
  std::vector<std::pair<Storage, Storage>> storages_;
  std::optional<Device> device_, other_, asked_;
};

// `op`, whose arguments are on the stack, as the host does it.
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
  // A view reads nothing: it may be taken of what is still to be copied.
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

// --- What the device does itself ---

template <typename T>
using Maybe = c10::optional<T>;

Tensor empty(at::IntArrayRef size, Maybe<at::ScalarType> dtype, Maybe<at::Layout>,
             Maybe<Device> device, Maybe<bool>, Maybe<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(checked(device.value_or(Device(kTestDevice))));
  return at::detail::empty_generic(size, &test_allocator(), c10::DispatchKeySet(kTestKey),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, Maybe<at::ScalarType> dtype,
                     Maybe<at::Layout>, Maybe<Device> device, Maybe<bool>) {
  const c10::DeviceGuard guard(checked(device.value_or(Device(kTestDevice))));
  return at::detail::empty_strided_generic(
      size, stride, &test_allocator(), c10::DispatchKeySet(kTestKey), c10::dtype_or_default(dtype));
}

// From, to, or between devices.
Tensor copy_from(const Tensor& source, const Tensor& destination, bool non_blocking) {
  // Of two calls, for the two may be on different devices.
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
  const Stream stream = current_stream(device);
  if (non_blocking && !of_two_devices && stream.id() != 0) {
    queue_of(stream).add(std::move(copy));
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

C10_REGISTER_GUARD_IMPL(PrivateUse1, TestGuard);
[[maybe_unused]] const bool allocator_is_set = [] {
  c10::SetAllocator(kTestDevice, &test_allocator());
  return true;
}();

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
  return Device(kTestDevice, static_cast<DeviceIndex>(index));
}

int64_t test_device_bytes() { return bytes_in_use; }

TestDevicesAtWork::TestDevicesAtWork() { ++at_work; }
TestDevicesAtWork::~TestDevicesAtWork() { --at_work; }

}  // namespace muster::inline v0_1::testing
