// Collectives of tensors that are on a device (a GPU), for ranks that have a communicator of the
// CPU. Thread safety: as every communicator.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "muster/collectives/communicator.h"
#include "muster/collectives/transport.h"
#include "muster/tensor/device.h"

namespace muster::inline v0_1 {

// How tensors of a device travel.
struct DeviceCommunicatorOptions {
  Device device = at::kCPU;
  // kNccl: between GPUs, by NCCL. kAuto: likewise where every rank has a GPU of its own and this
  // Muster was built with NCCL. All others: through memory of the CPU.
  Transport transport = Transport::kAuto;
  // An operation of NCCL fails with Timeout when it takes longer; others when the device does.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // How long NCCL may take to connect all ranks.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(60);
};

// Throws InvalidArgument where NCCL was asked for and cannot be: for another device than a GPU, and
// where this Muster was built without it.
void check_transport(Transport transport, Device device);

// A communicator for tensors on the CPU, which go to `host`, and for those on the device. Returns
// `host` itself where the device is the CPU. `how` is given what was chosen and why, in brackets,
// or nothing. All ranks call it together, with the same options but the device. Throws
// what check_transport() throws, and InvalidArgument where NCCL was asked for and two ranks have
// the same GPU.
std::unique_ptr<Communicator> make_device_communicator(std::unique_ptr<Communicator> host,
                                                       const DeviceCommunicatorOptions& options,
                                                       std::string* how);

// Tensors of the device are copied to memory of the CPU as soon as what computes them is done,
// next to what the device does next; `host` brings them together; and back. So sums are made in
// rank order, and have the bits of `host`'s. A thread of its own does the waiting; a device that is
// not through with its own work after `timeout` ends the group.
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host,
                                                       Device device,
                                                       std::chrono::milliseconds timeout);

// The same for a device that records operations and has no streams (XLA): an operation runs what
// was recorded, and returns when it is done.
std::unique_ptr<Communicator> make_recorded_communicator(std::unique_ptr<Communicator> host,
                                                         Device device);

// NCCL between GPUs; `host` carries what is on the CPU, and for every operation of NCCL a few bytes
// (internal/device_backend.h). Sums are made in NCCL's order: the same bits on all ranks, but not
// those of other transports. Nothing, with the reason in `why_not`, on every rank, when two ranks
// have the same GPU; `host` is left alone then.
// REQUIRES: built_with_nccl().
std::unique_ptr<Communicator> try_nccl_communicator(std::unique_ptr<Communicator>& host,
                                                    const DeviceCommunicatorOptions& options,
                                                    std::string* why_not);
// Whether it was built with it.
bool built_with_nccl();

}  // namespace muster::inline v0_1
