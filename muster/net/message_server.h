// Waits at an address for tasks of the job that connect with connect_messages(), and gives each a
// thread. The number, bytes and time of unauthenticated peers are bounded. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/cluster/job_credentials.h"
#include "muster/net/message_socket.h"

namespace muster::inline v0_1::net {

// The address of a server, its job, and its limits.
struct MessageServerOptions {
  std::string address{};  // "host:port"; port 0 takes a free one
  cluster::Job job{};
  std::string task{};                // name of the server: "ps:0"; clients receive it
  size_t max_connections = 1024;     // of tasks of the job; further tasks are asked to wait
  double idle_timeout_seconds = 60;  // as in MessageSocketOptions
  // The limit for connections that are not proved yet.
  size_t max_unproved_connections = 64;
  double unproved_seconds = 5;
  bool same_host_shortcut = true;  // a Unix socket for tasks on this host
};

// Serves from its construction on.
class MUSTER_PART_EXPORT MessageServer {
 public:
  // Called on a thread of its own for each task that connects. The connection ends when it returns
  // or throws; its error is logged.
  using Serve = std::function<void(MessageSocket&)>;

  // Listens from now on. A loopback host, and a numeric address of this machine, is all it listens
  // on; any other name means all interfaces, because it often belongs to a load balancer. Throws
  // Unavailable naming the address when the port is in use, InvalidArgument for certificates that
  // cannot be used, and where other machines can connect and nothing keeps unauthenticated peers
  // out.
  MessageServer(MessageServerOptions options, Serve serve);
  // stop()
  ~MessageServer();
  MessageServer(const MessageServer&) = delete;
  MessageServer& operator=(const MessageServer&) = delete;

  int port() const;
  // "host:port", as the options say it, with the port that was taken.
  std::string address() const;
  // The last peer that it refused and why, as the log says it; "" if it refused none.
  std::string last_refusal() const;
  // Closes the port and all connections, and waits for `serve` to return on all threads.
  // Idempotent. Not from `serve`.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::net
