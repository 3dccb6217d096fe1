// How ranks that are processes find each other over TCP. No LibTorch here. Thread safety: one
// thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "muster/base/file_descriptor.h"
#include "muster/collectives/rendezvous.h"

namespace muster::inline v0_1::internal {

// The ranks of a group over TCP.
struct TcpGroupOptions {
  KeyValueStore* store = nullptr;
  int rank = 0;
  int size = 1;
  std::string address{};  // numeric, owned by an interface of this machine
  std::string prefix{};   // of the keys in `store`
  std::chrono::milliseconds timeout{};
  // Called now and then while this rank waits; its exception ends the wait.
  std::function<void()> check{};
  // The ranks' numbers in messages; empty: their ranks.
  std::vector<int> shown_ranks{};

  int shown(int r) const { return shown_ranks.empty() ? r : shown_ranks[static_cast<size_t>(r)]; }
};

// The connections to one peer. Small messages do not wait for large ones.
struct PeerSockets {
  FileDescriptor control;
  FileDescriptor bulk;
};

// Connects to all peers, and returns when all have proved that they belong to the group: they know
// the secret that rank 0 leaves in the store. By rank; this rank's own is empty. Unauthenticated
// peers are rejected, and a log line names each of their hosts once. Throws Timeout naming a rank
// that did not appear or did not connect, PeerLost when a connection failed, Unavailable when the
// sockets are more than the process may have open, and the exception of `check`.
std::vector<PeerSockets> connect_tcp_group(const TcpGroupOptions& options);

}  // namespace muster::inline v0_1::internal
