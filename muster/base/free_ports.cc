#include "muster/base/free_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <fstream>
#include <mutex>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/loopback.h"

namespace muster::inline v0_1 {
namespace {

// Ports that the system gives out only on request by number: the ports below the range from which
// it makes its own choices, for servers and for the near ends of connections.
struct Range {
  int first = 20000;
  int end = 30000;
};

// Empty if the system's own range leaves none.
Range unasked_for() {
  Range range;
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  if (int first_of_system = 0; file >> first_of_system)
    range.end = std::min(range.end, first_of_system);
  return range;
}

// A socket at this port of the loopback interface, 0 for one that the system chooses; none, with
// errno, if it is taken.
FileDescriptor bound(int type, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 address6{};
  address6.sin6_family = AF_INET6;
  address6.sin6_addr = in6addr_loopback;
  address6.sin6_port = address.sin_port;
  const bool ipv6 = loopback_host() == "::1";
  FileDescriptor fd(socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0));
  const auto* raw =
      ipv6 ? reinterpret_cast<sockaddr*>(&address6) : reinterpret_cast<sockaddr*>(&address);
  const socklen_t size = ipv6 ? sizeof address6 : sizeof address;
  if (fd.is_open() && bind(fd.get(), raw, size) == 0) return fd;
  return {};
}

int port_of(const FileDescriptor& fd) {
  sockaddr_in6 address{};  // the port is at the same place in both
  socklen_t size = sizeof address;
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

// The ports that this process has given out. A datagram socket with the number of a port disturbs
// no TCP server, and keeps other processes that look for ports away from it.
class Given {
 public:
  // Another port, or none, with errno.
  int take() {
    const std::lock_guard lock(mutex_);
    const int count = range_.end - range_.first;
    for (int i = 0; i < count; ++i) {
      if (take(range_.first + next_++ % count)) return port_of(marks_.back());
      if (errno != EADDRINUSE) return 0;
    }
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      if (take(0)) return port_of(marks_.back());
      if (errno != EADDRINUSE) return 0;
    }
    return 0;
  }

 private:
  bool take(int port) {
    const FileDescriptor free = bound(SOCK_STREAM, port);
    if (!free.is_open()) return false;
    FileDescriptor mark = bound(SOCK_DGRAM, port_of(free));
    if (!mark.is_open()) return false;
    marks_.push_back(std::move(mark));
    if (marks_.size() > kMostFreePortsKept) marks_.pop_front();
    return true;
  }

  std::mutex mutex_;
  const Range range_ = unasked_for();
  // Processes begin at different places, so that few look at one port at one time.
  unsigned next_ = static_cast<unsigned>(getpid()) * 37;
  std::deque<FileDescriptor> marks_;
};

}  // namespace

std::vector<int> free_ports(int count) {
  static Given given;
  std::vector<int> ports;
  while (static_cast<int>(ports.size()) < count) {
    const int port = given.take();
    if (port == 0)
      throw from_errno(errno,
                       fmt::format("cannot find {} free ports on {}", count, loopback_host()));
    ports.push_back(port);
  }
  return ports;
}

int free_port() { return free_ports(1).front(); }

}  // namespace muster::inline v0_1
