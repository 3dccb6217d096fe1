// Copies batches from the CPU, where data is read, to the device that computes with them.
// Thread safety: a DeviceCopier belongs to one thread.
#pragma once

#include <memory>

#include "muster/tensor/device.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// The copy runs while the device computes: on a stream of its own, and from pinned memory if that
// helps. Later work of this thread on the device waits until the copy is complete.
class DeviceCopier {
 public:
  // For the CPU it copies nothing.
  explicit DeviceCopier(Device device);

  Device device() const { return device_; }
  // Returns the element with its tensors on the device. Tensors that are on it already, and texts,
  // stay unchanged. on_host() knows their sources, until the next call on this thread.
  Element operator()(const Element& element) const;

 private:
  struct Streams;
  Device device_;
  std::shared_ptr<const Streams> streams_;  // one for all batches: memory is kept for each
};

}  // namespace muster::inline v0_1
