// Names of Unix sockets that are on no disk, and the process at their other end. Thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

namespace muster::inline v0_1 {

// A name in the abstract name space, which processes of one network namespace share: nothing to
// clean up. A name longer than the system's 107 bytes is cut.
class UnixName {
 public:
  explicit UnixName(const std::string& name);
  // As bind() and connect() take it.
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t bytes() const { return bytes_; }

 private:
  sockaddr_un address_{};
  socklen_t bytes_ = 0;
};

// Whether the process at the other end of a Unix socket runs as this one's user.
bool is_same_user(int socket);

}  // namespace muster::inline v0_1
