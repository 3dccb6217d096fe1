// The counterpart of a GPU's driver: the memory, the streams and the events of test devices. Thread
// safety: any thread; the current device and its current stream are each thread's own.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/Stream.h>

#include <functional>

#include "tests/support/test_device.h"

namespace muster::inline v0_1::testing {

inline constexpr c10::DispatchKey kTestKey = c10::DispatchKey::PrivateUse1;

// The device itself; the current one, when it has no index. Throws c10::Error for an index that no
// test device has.
c10::Device checked_device(c10::Device device);
c10::Device current_test_device();

// Returns memory of the current device.
c10::Allocator& test_allocator();

c10::Stream current_test_stream(c10::Device device);
// Adds work to a stream; it is carried out only once a thread waits for it.
void queue_work(const c10::Stream& stream, std::function<void()> work);
// Carries out the work queued on the device's current stream, which comes before the next work on
// it.
void catch_up(c10::Device device);

}  // namespace muster::inline v0_1::testing
