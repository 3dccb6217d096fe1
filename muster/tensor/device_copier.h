// From the CPU, where data is read, to the device it is computed with.
// Thread safety: a DeviceCopier belongs to one thread.
#pragma once

#include <memory>

#include "muster/tensor/device.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// Brings what the CPU has read to a device, beside what that is computing: from pinned memory where
// that helps, on a stream of its own. What this thread lets the device do afterwards finds all of
// it there.
class DeviceCopier {
 public:
  // For the CPU it copies nothing.
  explicit DeviceCopier(Device device);

  Device device() const { return device_; }
  // The element with its tensors on the device; those that are there already, and texts, stay as
  // they are.
  Element operator()(const Element& element) const;

 private:
  struct Streams;
  Device device_;
  std::shared_ptr<const Streams> streams_;  // one for all batches: memory is kept for each
};

}  // namespace muster::inline v0_1
