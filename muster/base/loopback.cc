#include "muster/base/loopback.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "muster/base/file_descriptor.h"

namespace muster::inline v0_1 {
namespace {

template <typename Address>
bool can_bind_datagrams(int family, const Address& address) {
  const FileDescriptor fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return fd.is_open() &&
         bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool is_there_for_ipv4() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return can_bind_datagrams(AF_INET, address);
}

bool is_there_for_ipv6() {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return can_bind_datagrams(AF_INET6, address);
}

}  // namespace

// If neither exists, errors name the better known one.
std::string loopback_host() {
  static const bool only_ipv6 = !is_there_for_ipv4() && is_there_for_ipv6();
  return only_ipv6 ? "::1" : "127.0.0.1";
}

std::string loopback_address(int port) {
  const std::string host = loopback_host();
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

}  // namespace muster::inline v0_1
