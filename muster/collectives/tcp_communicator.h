// Ranks that are processes, on one host or many, connected by TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/collectives/communicator.h"
#include "muster/collectives/rendezvous.h"

namespace muster::inline v0_1 {

// The ranks of a group over TCP.
struct TcpOptions {
  // Where the ranks leave each other their addresses; needed only while connecting. Required for
  // size > 1.
  KeyValueStore* rendezvous = nullptr;
  int rank = 0;
  int size = 1;
  // This task's host in the cluster description (a name or a number, without port). The connection
  // uses the interface that owns it.
  std::string address = "127.0.0.1";
  // Keys in the rendezvous store start with it. Choose another one whenever the group is made anew
  // (its epoch, say).
  std::string group = "group";
  // An operation fails with Timeout when it takes longer: a rank has not come to it, or makes no
  // progress.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // How long to wait for the other ranks when connecting.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(60);
  // Called now and then while connecting. An exception that it throws ends the connecting. A caller
  // that knows that a rank will not come can therefore end the wait before the timeout.
  std::function<void()> check_failure = {};
  // Up to this many bytes (16384 at most) an operation is one message per peer, and every rank sums
  // everything: half the latency for at most size() times the bytes. Larger buffers are cut into
  // one chunk per rank. The bits are the same. tune() lowers it for all_reduce where a byte costs
  // more than that saves.
  int64_t inline_bytes = 16 * 1024;
  // Chunks travel in segments of this size, so that adding one overlaps with receiving the next.
  int64_t segment_bytes = 512 * 1024;
  // The ranks' numbers in messages, if they are part of a larger group; empty: their ranks.
  std::vector<int> shown_ranks = {};
};

// Connects to all peers; returns when all are connected and have proved that they know the secret
// which rank 0 leaves in the rendezvous. Throws Timeout naming a rank that did not appear, PeerLost
// when a connection failed, Unavailable when the two sockets for each peer are more than the
// process may have open even with its soft limit raised to the hard one; InvalidArgument for
// options that make no sense. All ranks need the same options but rank and address.
std::unique_ptr<Communicator> make_tcp_communicator(const TcpOptions& options);

}  // namespace muster::inline v0_1
