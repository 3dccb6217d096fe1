// The link between the first ranks of two neighbouring hosts. Thread safety: as a communicator.
#pragma once

#include <memory>
#include <string>

#include "muster/collectives/communicator.h"
#include "muster/collectives/connect.h"

namespace muster::inline v0_1::internal {

class HostLink {
 public:
  // Connects ranks `earlier` and `later` of the group that `options` describe; one of them is this
  // rank. Throws as make_tcp_communicator().
  HostLink(const ConnectOptions& options, int earlier, int later);

  // The other rank.
  int peer() const { return peer_; }
  // A message to it and one from it, of the same size on both sides.
  Work send(const Tensor& buffer);
  Work receive(const Tensor& buffer);
  void abort(ErrorKind kind, const std::string& reason);

 private:
  const bool is_earlier_;
  const int peer_;
  // A connection for each direction, so that neither waits for the other.
  std::unique_ptr<Communicator> forward_, backward_;
};

}  // namespace muster::inline v0_1::internal
