// Messages between ranks that are processes, over TCP. A thread that waits for one message moves
// all of them, so no thread has to be woken for each. No LibTorch here. Thread safety: one thread;
// wake() from any.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/collectives/internal/connection.h"
#include "muster/collectives/internal/handshake.h"
#include "muster/collectives/internal/tcp_bootstrap.h"

namespace muster::inline v0_1::internal {

class PointToPoint {
 public:
  // How a wait ended.
  enum class End {
    kDone,
    kLost,  // the connection is gone: see why_lost()
    kTimeout,
    kWoken,  // by wake()
  };

  // Connects to all peers. Throws as connect_tcp_group().
  explicit PointToPoint(const TcpGroupOptions& options);
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // As in Connection; transfers live shorter than this.
  std::unique_ptr<Transfer> send(int peer, Lane lane, const std::byte* data, int64_t bytes,
                                 uint32_t tag) {
    return connection(peer, lane).send(data, bytes, tag);
  }
  std::unique_ptr<Transfer> receive(int peer, Lane lane, std::byte* data, int64_t bytes,
                                    uint32_t tag) {
    return connection(peer, lane).receive(data, bytes, tag);
  }

  // Waits for a message of `peer` and `lane`.
  End wait(const Transfer& transfer, int peer, Lane lane,
           std::chrono::steady_clock::time_point deadline);
  // Takes in the data that has arrived, without waiting.
  void look();
  // Why no message can come from `peer` or go there any more; nothing while all is well.
  std::optional<std::string> why_lost(int peer) const;
  // Ends the present wait, or the next one.
  void wake();

 private:
  // The two connections to a peer, by lane; none to this rank itself.
  using Lanes = std::vector<std::unique_ptr<Connection>>;

  Connection& connection(int peer, Lane lane) const {
    return *peers_[static_cast<size_t>(peer)][static_cast<size_t>(lane)];
  }
  bool poll_all(std::chrono::milliseconds timeout);

  FileDescriptor wake_;
  std::vector<Lanes> peers_;  // by rank
  // The open connections, and the entries for poll(); kept for their memory.
  std::vector<Connection*> polled_;
  std::vector<pollfd> entries_;
};

}  // namespace muster::inline v0_1::internal
