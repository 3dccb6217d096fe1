#include "muster/base/free_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/error.h"

namespace muster::inline v0_1 {

std::vector<int> free_ports(int count) {
  std::vector<int> sockets;  // held until the last is known, so that no port comes twice
  std::vector<int> ports;
  int failed = 0;
  for (int i = 0; i < count && failed == 0; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      failed = errno;
      break;
    }
    sockets.push_back(fd);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(fd, generic, size) != 0 || getsockname(fd, generic, &size) != 0) failed = errno;
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int fd : sockets) close(fd);
  if (failed != 0) {
    throw from_errno(failed, fmt::format("cannot find {} free ports on 127.0.0.1", count));
  }
  return ports;
}

int free_port() { return free_ports(1).front(); }

}  // namespace muster::inline v0_1
