// Ranks that are processes of one host and share memory. It needs no thread, and copies no buffer
// that allocate() made: each rank sums its chunk of all buffers, in rank order, and writes the sum
// to all. Thread safety: as every communicator.
//
// An operation moves forward only while its rank issues, asks for or waits for operations. So wait
// for every Work before doing anything else that another rank may depend on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/collectives/communicator.h"
#include "muster/collectives/rendezvous.h"

namespace muster::inline v0_1 {

// The ranks of a group on one host.
struct SharedMemoryOptions {
  // Where the ranks leave each other the names of their sockets; needed only while connecting.
  // Required for size > 1.
  KeyValueStore* rendezvous = nullptr;
  int rank = 0;
  int size = 1;
  // Keys in the rendezvous store start with it. Choose another one whenever the group is made anew.
  std::string group = "group";
  // An operation fails with Timeout when a rank keeps this one waiting for longer.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // How long to wait for the other ranks when connecting.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(60);
  // Called now and then while connecting. An exception that it throws ends the connecting. A caller
  // that knows that a rank will not come can therefore end the wait before the timeout.
  std::function<void()> check_failure = {};
  // Buffers that allocate() did not make travel in pieces of this size; a multiple of 64,
  // and 64 for each rank at least.
  int64_t stage_bytes = 256 * 1024;
  // The number of rank 0 in messages, if the group is part of a larger one; the others follow it.
  int first_shown_rank = 0;
};

// Returns when all ranks are connected; a process of another user, or one that does not know the
// ranks' secrets in the rendezvous, is rejected. Throws Unavailable with the reason if they cannot
// share memory, Timeout naming a rank that did not appear, InvalidArgument for options that make no
// sense. All ranks need the same options but rank.
std::unique_ptr<Communicator> make_shared_memory_communicator(const SharedMemoryOptions& options);

// The same, but nothing, with the reason in `why_not`, on every rank when some cannot share memory:
// they are on several hosts, locked away from each other, or may not open a socket for each other
// rank (the soft limit of the process is raised to the hard one before).
std::unique_ptr<Communicator> try_shared_memory_communicator(const SharedMemoryOptions& options,
                                                             std::string* why_not);

}  // namespace muster::inline v0_1
