// Ranks on several hosts, several of them on each: shared memory inside a host, and one stream of
// bytes between neighbouring hosts, however many ranks they have. Thread safety: as every
// communicator.
//
// Sums are carried from host to host: the first one adds its ranks, the next one adds its own ranks
// to the received sums, and so on; the last one sends the sums back the same way. So each element
// is still added in rank order, and the bits are those of every other transport. Segments follow
// each other, both directions work at once, and a host sends and receives every byte at most twice.
// Elements of 16 bits travel as float32.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/collectives/connect.h"

namespace muster::inline v0_1 {

// The ranks of a group on several hosts.
struct HierarchicalOptions {
  // The options of this rank; `transport` is ignored.
  ConnectOptions connect{};
  // The number of each rank's host: 0 for the first ones, then 1, ...; ranks of a host follow each
  // other.
  std::vector<int> host_of_rank{};
  // Buffers travel between hosts in segments of this size.
  int64_t segment_bytes = 1024 * 1024;
};

// Returns when all ranks have connected. Throws as make_shared_memory_communicator() and
// make_tcp_communicator(), which it uses; InvalidArgument for hosts that are not numbered as
// described above.
std::unique_ptr<Communicator> make_hierarchical_communicator(const HierarchicalOptions& options);

// The same, but nothing, with the reason in `why_not`, on every rank of every host when the ranks
// of some host cannot share memory.
std::unique_ptr<Communicator> try_hierarchical_communicator(const HierarchicalOptions& options,
                                                            std::string* why_not);

}  // namespace muster::inline v0_1
