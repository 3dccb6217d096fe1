// TCP sockets that never block for longer than they may. No LibTorch here. Thread safety: functions
// on different sockets from any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1::internal {

// A socket that waits for connections, and its address.
struct TcpListener {
  FileDescriptor socket{};
  std::string address{};  // "host:port", "[v6]:port"
};

// Listens at a free port of `host`, a numeric address of this machine. Throws Unavailable.
TcpListener listen_tcp(const std::string& host);

// A connection that was accepted, and from where.
struct AcceptedSocket {
  FileDescriptor socket{};
  std::string host{};
};
// Does not wait: nothing if no peer has connected, or the peer is gone. Throws Unavailable.
std::optional<AcceptedSocket> accept_tcp(const FileDescriptor& listener);
// Whether this error of accept(2) concerns only one connection, so that the listener still works.
bool spares_the_listener(int code);

// Begins to connect to `address`, as TcpListener has it. The connection is made when the socket can
// be written to and connect_error() is empty. Throws Unavailable when it cannot even begin.
FileDescriptor start_connect_tcp(const std::string& address);
// Why the connection failed; empty if it is open or still being made.
std::string connect_error(const FileDescriptor& socket);

}  // namespace muster::inline v0_1::internal
