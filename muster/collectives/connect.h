// The communicator that suits where the ranks are.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/collectives/communicator.h"
#include "muster/collectives/rendezvous.h"

namespace muster::inline v0_1 {

// How buffers travel between ranks.
enum class Transport {
  // Shared memory when all ranks are on one host and can reach each other; on several hosts, Gloo,
  // with shared memory inside of hosts that have several ranks one after the other. Where ranks
  // cannot share memory, Gloo between all of them, and the log says why.
  kAuto,
  kGloo,          // TCP
  kSharedMemory,  // Unavailable when the ranks cannot share memory
  kNccl,          // between GPUs: not supported yet, InvalidArgument
};
// "auto", "gloo", "shared_memory", "nccl", in any case; tf.distribute's "ring", all ranks over TCP,
// is "gloo". Nothing for another word.
std::optional<Transport> parse_transport(std::string_view name);

// Who meets whom, and how.
struct ConnectOptions {
  Transport transport = Transport::kAuto;
  // Where the ranks leave each other their addresses; needed only while connecting. Required for
  // size > 1.
  KeyValueStore* rendezvous = nullptr;
  int rank = 0;
  int size = 1;
  std::string address = "127.0.0.1";  // see GlooOptions
  // Keys in the rendezvous store start with it. Choose another one whenever the group is made anew.
  std::string group = "group";
  // An operation fails with Timeout when it takes longer.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // How long to wait for the other ranks when connecting.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(60);
};

// Returns when all ranks are connected; rank 0 logs what was chosen. All ranks choose alike and
// need the same options but rank and address. Throws as make_gloo_communicator(),
// make_shared_memory_communicator() and make_hierarchical_communicator() do.
std::unique_ptr<Communicator> make_communicator(const ConnectOptions& options);

}  // namespace muster::inline v0_1
