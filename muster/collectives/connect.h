// The communicator that suits where the ranks are.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "muster/collectives/communicator.h"
#include "muster/collectives/rendezvous.h"
#include "muster/collectives/transport.h"
#include "muster/tensor/device.h"

namespace muster::inline v0_1 {

// The ranks of a group, and how they connect.
struct ConnectOptions {
  Transport transport = Transport::kAuto;
  // Where the ranks leave each other their addresses; needed only while connecting. Required for
  // size > 1.
  KeyValueStore* rendezvous = nullptr;
  int rank = 0;
  int size = 1;
  // The device of this rank's tensors. On a GPU, tensors of the CPU are reduced too.
  Device device = at::kCPU;
  std::string address = "127.0.0.1";  // see TcpOptions
  // Keys in the rendezvous store start with it. Choose another one whenever the group is made anew.
  std::string group = "group";
  // An operation fails with Timeout when it takes longer.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // How long to wait for the other ranks when connecting.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(60);
  // Called now and then while connecting. An exception that it throws ends the connecting. A caller
  // that knows that a rank will not come can therefore end the wait before the timeout.
  std::function<void()> check_failure = {};
};

// Returns when all ranks are connected; rank 0 logs the choice. All ranks choose alike and need the
// same options except rank, the number of the device, and address. Throws as
// make_tcp_communicator(), make_shared_memory_communicator(), make_hierarchical_communicator() and
// make_device_communicator() do.
std::unique_ptr<Communicator> make_communicator(const ConnectOptions& options);

}  // namespace muster::inline v0_1
