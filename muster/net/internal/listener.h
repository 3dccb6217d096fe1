// The sockets that wait for connections at one address of this machine. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::net {

class Listener {
 public:
  // Listens at `host` (a numeric address or localhost; "0.0.0.0" means all interfaces, of IPv6
  // too) and `port`; 0 takes a free one. Throws Unavailable, naming `shown_as`, the system's reason
  // and, where the port is taken, `hint`.
  Listener(const std::string& host, int port, const std::string& shown_as, const std::string& hint);
  // Listens at the address of a task, "host:port". A loopback host, and a numeric address of this
  // machine, is all it listens on; any other name means all interfaces, because it often belongs to
  // a load balancer or a NAT. Throws as above, and InvalidArgument for what is not an address.
  static Listener at(const std::string& address);
  // Closes the sockets.
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  const std::vector<int>& sockets() const { return sockets_; }
  int port() const { return port_; }
  // Takes in a socket that listens elsewhere.
  void adopt(FileDescriptor socket) { sockets_.push_back(socket.release()); }
  // No peer can connect after this. Idempotent.
  void close();

 private:
  // Answers 0, or errno.
  int add(int family, const void* address, unsigned bytes);

  std::vector<int> sockets_;
  int port_ = 0;
};

}  // namespace muster::inline v0_1::net
