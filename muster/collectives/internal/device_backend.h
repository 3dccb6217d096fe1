// A library that moves buffers between devices by itself, as NCCL does, and the communicator made
// of it. All that needs such devices is behind this interface.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "muster/collectives/communicator.h"
#include "muster/collectives/internal/operation.h"
#include "muster/tensor/device.h"

namespace c10 {
class Stream;
}

namespace muster::inline v0_1::internal {

// This rank's part of it. Thread safety: all calls from any thread.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  virtual std::string_view name() const = 0;
  // Lets the device carry the operation out, after what is in `stream`; its addresses are the
  // device's. Ranks enqueue the same operations in the same order. Throws what ended the group.
  virtual void enqueue(const Operation& operation, const c10::Stream& stream) = 0;
  // Throws what is known to keep operations from ending.
  virtual void check() = 0;
  // Ends those that are enqueued, and is not a group any more; also while another thread is in
  // enqueue(), which then throws. Only the first call counts.
  virtual void abort() noexcept = 0;
};

// For each operation `host` carries a few bytes, by which ranks compare what they were asked to do,
// and notice who is lost before: a backend alone would hang, or mix up buffers. An
// operation that takes longer than `timeout` after that ends the group; so does abort(), which
// is called when a rank is lost meanwhile.
std::unique_ptr<Communicator> make_device_backend_communicator(
    std::unique_ptr<Communicator> host, std::unique_ptr<DeviceBackend> backend, Device device,
    std::chrono::milliseconds timeout);

}  // namespace muster::inline v0_1::internal
