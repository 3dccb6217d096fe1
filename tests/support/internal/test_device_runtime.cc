#include "tests/support/internal/test_device_runtime.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#if __has_include(<ATen/detail/PrivateUse1HooksInterface.h>)
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#endif

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace muster::inline v0_1::testing {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;
using c10::StreamId;

// The default stream is 0; CUDA's pool has as many next to it.
constexpr int kPoolStreams = 32;
constexpr std::align_val_t kAlignment{64};

thread_local DeviceIndex current_device = 0;
thread_local std::array<StreamId, kTestDevices> current_streams{};

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

c10::DataPtr allocate_block(size_t size) {
  const Device device = current_test_device();
  if (size == 0) return c10::DataPtr(nullptr, device);
  char* block = static_cast<char*>(::operator new(kHead + size, kAlignment));
  std::memcpy(block, &size, sizeof size);
  // As numbers these bytes are NaN, so that reading unwritten memory is noticed.
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
  return (*queues)[checked_device(stream.device()).index()].at(stream.id());
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
  Device getDevice() const override { return current_test_device(); }
  Device exchangeDevice(Device device) const override {
    const Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  void setDevice(Device device) const override { current_device = checked_device(device).index(); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) current_device = device.index();
  }

  Stream getStream(Device device) const noexcept override { return current_test_stream(device); }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::DEFAULT, checked_device(device));
  }
  Stream getStreamFromGlobalPool(Device device, bool /*is_high_priority*/) const override {
    static std::array<std::atomic<uint32_t>, kTestDevices> next{};
    device = checked_device(device);
    return Stream(Stream::UNSAFE, device, 1 + next[device.index()]++ % kPoolStreams);
  }
  Stream exchangeStream(Stream stream) const noexcept override {
    const Stream previous = current_test_stream(stream.device());
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

C10_REGISTER_GUARD_IMPL(PrivateUse1, TestGuard);

#if __has_include(<ATen/detail/PrivateUse1HooksInterface.h>)
// By these LibTorch 2 knows that the device has streams, also next to GPUs.
struct TestHooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const { return true; }
  bool isAvailable() const { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const { return kTestDevices; }
  void setCurrentDevice(DeviceIndex device) const { current_device = device; }
  DeviceIndex getCurrentDevice() const { return current_device; }
  DeviceIndex exchangeDevice(DeviceIndex device) const {
    return std::exchange(current_device, device);
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const { return exchangeDevice(device); }
  bool isPinnedPtr(const void*) const override { return false; }
  // No operation draws from it: a test device runs operations on the host.
  const at::Generator& getDefaultGenerator(DeviceIndex) const {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
};
[[maybe_unused]] const bool hooks_are_set = [] {
  // LibTorch 2.15 sees a device only once its name is registered. This is the name it already has.
  c10::register_privateuse1_backend("privateuseone");
  at::RegisterPrivateUse1HooksInterface(new TestHooks);
  return true;
}();
#endif
[[maybe_unused]] const bool allocator_is_set = [] {
  c10::SetAllocator(kTestDevice, &test_allocator());
  return true;
}();

}  // namespace

Device checked_device(Device device) {
  if (!device.has_index()) return current_test_device();
  TORCH_CHECK(device.type() == kTestDevice && device.index() >= 0 && device.index() < kTestDevices,
              "there is no test device ", device, "; there are ", kTestDevices);
  return device;
}

Device current_test_device() { return Device(kTestDevice, current_device); }

c10::Allocator& test_allocator() {
  static auto* allocator = new TestAllocator;
  return *allocator;
}

Stream current_test_stream(Device device) {
  device = checked_device(device);
  return Stream(Stream::UNSAFE, device, current_streams[device.index()]);
}

void queue_work(const Stream& stream, std::function<void()> work) {
  queue_of(stream).add(std::move(work));
}

void catch_up(Device device) {
  const Stream stream = current_test_stream(device);
  if (stream.id() != 0) queue_of(stream).carry_out();
}

int64_t test_device_bytes() { return bytes_in_use; }

TestDevicesAtWork::TestDevicesAtWork() { ++at_work; }
TestDevicesAtWork::~TestDevicesAtWork() { --at_work; }

}  // namespace muster::inline v0_1::testing
