// Accepts connections, and bounds the cost of those that have not shown yet that they belong to the
// job: their number, their bytes, and their time. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "muster/net/internal/listener.h"
#include "muster/net/internal/peer.h"
#include "muster/net/internal/refusal_log.h"

namespace muster::inline v0_1::net {

// Limits for connections that no call has proved yet.
struct AcceptorLimits {
  size_t connections = 36;   // at once; beyond that, the oldest connection of the peer with the
                             // most is closed
  int64_t bytes = 16 << 10;  // that one may send
  double seconds = 5;        // until its first call that proves it
};

class Acceptor {
 public:
  // Owns the connection from then on.
  using Take = std::function<void(int connection, const Peer& peer)>;

  // Connections come to `take` once they have begun with a frame (frame.h) or, with `tls`, with a
  // handshake of TLS; others are closed. Those over a Unix socket must be of this process's user.
  // None is let in before start(). Messages call the acceptor `server`.
  Acceptor(Listener listener, AcceptorLimits limits, std::string server, bool tls, RefusalLog& log,
           Take take);
  // stop()
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // A thread accepts connections from now on. Call it once, when proved() may be called: the first
  // connection may have proved itself before this returns.
  void start();
  // This peer has shown that it belongs to the job: nothing bounds its connection any more. False
  // when that was closed already, or is proved.
  bool proved(const Peer& peer);
  // Closes the port, and the connections that were not taken. Idempotent.
  void stop();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Connection {
    int fd{};  // ours; the taker of the connection has another one
    Peer peer{};
    std::string neighbourhood{};
    Time deadline{};
    bool taken = false;
  };
  using Connections = std::map<uint64_t, Connection>;  // the oldest first

  void run();
  int wait_ms();
  void accept_from(int listener);
  // The user at the other end of a Unix socket; nothing, and the log says so, for another user.
  std::optional<Peer> local_peer(int fd);
  void admit(int fd, const Peer& peer);
  // The arguments of `take_`.
  struct Taken {
    int fd = -1;  // none
    Peer peer{};
  };
  Taken look_at(uint64_t id, uint32_t events);
  Taken look_at_first_bytes(Connections::iterator at);
  void end_late_ones();
  // Ends one connection of the peers with the most; false if there are none.
  bool end_one_of_most();
  void endure_no_descriptors(int listener);
  // Ends the connection; the log gives the reason, if there is one.
  void drop(Connections::iterator at, const std::string& why);
  void forget(Connections::iterator at);
  void open_reserve();

  Listener listener_;
  const AcceptorLimits limits_;
  const std::string server_;
  const bool tls_;
  RefusalLog& log_;
  const Take take_;
  int epoll_ = -1;
  int wake_ = -1;
  int reserve_ = -1;  // a descriptor for turning a peer away when there are no others
  bool told_of_descriptors_ = false;
  std::mutex mutex_;
  bool stopping_ = false;
  uint64_t next_id_;
  int local_peers_ = 0;                      // that came over a Unix socket
  Connections connections_;                  // that are not proved
  std::map<Peer, uint64_t> by_peer_;         // their ids
  std::map<std::string, size_t> per_place_;  // how many, by neighbourhood
  std::thread thread_;
};

}  // namespace muster::inline v0_1::net
