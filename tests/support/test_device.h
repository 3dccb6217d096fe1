// A fake accelerator for tests of where tensors lie: LibTorch's device "privateuseone", four of
// them. Their memory is the host's, but they are as strict as a GPU: no operation mixes devices,
// fresh memory is NaN, and a non-blocking copy on a stream of its own is carried out only once a
// thread waits for it.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace muster::inline v0_1::testing {

inline constexpr c10::DeviceType kTestDevice = c10::DeviceType::PrivateUse1;
inline constexpr int kTestDevices = 4;

// The device of that index. A call of it also links the devices into a program: a test names none
// by a literal.
c10::Device test_device(int index = 0);
// The bytes of the tensors on all test devices now.
int64_t test_device_bytes();

// While one lives, no event of a test device has happened yet: the devices are at work.
class TestDevicesAtWork {
 public:
  TestDevicesAtWork();
  ~TestDevicesAtWork();
  TestDevicesAtWork(const TestDevicesAtWork&) = delete;
  TestDevicesAtWork& operator=(const TestDevicesAtWork&) = delete;
};

}  // namespace muster::inline v0_1::testing
